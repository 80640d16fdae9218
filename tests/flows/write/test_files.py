"""Files appear whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from tcprobe.errors import OutputError, UsageError
from tcprobe.flows.write.files import write_files


def test_a_failure_leaves_nothing_behind(tmp_path: Path) -> None:
    def fail(out: object) -> None:
        raise OSError(28, "No space left on device")

    jobs = [(tmp_path / "a.csv", lambda out: None), (tmp_path / "b.csv", fail)]
    with pytest.raises(OutputError, match="No space left"):
        write_files(jobs, force=False)
    assert list(tmp_path.iterdir()) == []


def test_the_old_file_stands_until_the_new_one_is_whole(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("old")

    def fail(out: object) -> None:
        raise UsageError("cannot")

    with pytest.raises(UsageError):
        write_files([(tmp_path / "a.csv", fail)], force=True)
    assert (tmp_path / "a.csv").read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.csv"]
