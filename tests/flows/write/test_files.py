"""Files appear whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from tcprobe.errors import OutputError, UsageError
from tcprobe.flows.write import write_files


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


def test_a_folder_in_the_place_of_one_file_keeps_all_from_being_written(tmp_path: Path) -> None:
    (tmp_path / "b.csv").mkdir()
    jobs = [(tmp_path / name, lambda out: None) for name in ("a.csv", "b.csv")]
    with pytest.raises(OutputError, match=r"b\.csv: is a folder"):
        write_files(jobs, force=True)
    assert [path.name for path in tmp_path.iterdir()] == ["b.csv"]


def test_the_longest_name_has_room_for_a_temporary_one(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 251 + ".csv")
    assert write_files([(path, lambda out: None)], force=False) == [path]
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("target", ["kept", "gone", "link"])
def test_a_link_is_replaced_and_what_it_leads_to_stays(tmp_path: Path, target: str) -> None:
    (tmp_path / "kept").write_text("old")
    (tmp_path / "link").symlink_to(target)
    with pytest.raises(OutputError, match="exists already"):
        write_files([(tmp_path / "link", lambda out: None)], force=False)
    write_files([(tmp_path / "link", lambda out: None)], force=True)
    assert not (tmp_path / "link").is_symlink()
    assert {path.name for path in tmp_path.iterdir()} == {"kept", "link"}
    assert (tmp_path / "kept").read_text() == "old"
