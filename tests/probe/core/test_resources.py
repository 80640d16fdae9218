"""Why a file that was just written may not be whole."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest

from tcprobe.probe.core.resources import free_bytes, why_cut


def test_a_full_disk_and_a_limit_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, found = tmp_path / "x", os.statvfs(tmp_path)
    file.write_bytes(bytes(100))
    assert why_cut(str(tmp_path), [str(file)]) is None
    monkeypatch.setattr(resource, "getrlimit", lambda _: (100, 100))
    assert why_cut(str(tmp_path), [str(file)]) == "no file may be larger than 100 bytes (ulimit -f)"
    full = list(found)
    for place in (4, 7):  # free blocks, free inodes
        monkeypatch.setattr(
            os, "statvfs", lambda _, place=place: os.statvfs_result([*full[:place], 0, *full[place + 1 :]])
        )
        assert free_bytes(str(tmp_path)) == 0
        assert why_cut(str(tmp_path), []) == "no space is left on the disk"
