"""What would tell whose machine it is."""

from __future__ import annotations

import getpass
import platform
from pathlib import Path

import pytest

from bench.gpu.private import cleaned_trace, own_names

SCRATCH = Path("/data/ann/day/scratch")


def test_own_names_are_those_that_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "node", lambda: "node7.example.org")
    monkeypatch.setattr(getpass, "getuser", lambda: "ubuntu")
    assert own_names() == {"node7", "node7.example.org"}

    def nobody() -> str:
        raise KeyError("getpwuid(): uid not found: 1234")

    monkeypatch.setattr(platform, "node", lambda: "")
    monkeypatch.setattr(getpass, "getuser", nobody)
    assert own_names() == set()


def test_a_trace_stays_whole_without_host_names_and_paths() -> None:
    plane = b"\x0a\x16" + b"/data/ann/day/scratch!"
    assert len(plane) == 24
    assert cleaned_trace(plane + b"\x22\x05node7" + plane, SCRATCH) == (b"\x0a\x16" + b"x" * 21 + b"!") * 2
    for bad, said in ((b"\x08\x01", "no XSpace: field 1 at byte 0"), (b"\x0a\x05abc", "runs past its message")):
        with pytest.raises(ValueError, match=said):
            cleaned_trace(bad)
