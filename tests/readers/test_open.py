"""Opening a path: which format, which run, and what is said where there is none."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tcprobe.errors import EmptyInput, MissingInput, TcprobeError, UnreadableInput, UsageError, WrongFormat
from tcprobe.readers.open import open_profile
from tcprobe.schema.profile import Metadata, Profile
from tests.support import shared


@dataclass
class FakeReader:
    """Finds the files that end as it says, below the path."""

    FORMAT: str
    ending: str
    seen: list[list[Path]] = field(default_factory=list)
    WHAT: str = "*.xplane.pb"

    def finds(self, path: Path) -> list[Path]:
        files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
        return [p for p in files if p.name.endswith(self.ending)]

    def read(self, files: list[Path]) -> Profile:
        self.seen.append(files)
        return Profile(Metadata(self.FORMAT, tuple(map(str, files))))


def readers() -> list[FakeReader]:
    return [FakeReader("run_folder", "run.json"), FakeReader("xplane", ".pb"), FakeReader("dlprof_csv", ".csv")]


def fill(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"x")
    return folder


def failure(path: Path) -> TcprobeError:
    with pytest.raises(TcprobeError) as caught:
        open_profile(path, readers())
    assert "\n" not in caught.value.message
    return caught.value


def test_a_file_goes_to_its_reader(tmp_path: Path) -> None:
    fill(tmp_path, "a.pb", "b.csv")
    assert open_profile(tmp_path / "b.csv", readers()).metadata.format == "dlprof_csv"


def test_of_two_formats_the_richer_is_read_and_the_other_named(tmp_path: Path) -> None:
    profile = open_profile(fill(tmp_path, "a.pb", "b.csv"), readers())
    assert profile.metadata.format == "xplane"
    (note,) = profile.metadata.notes
    assert (note.code, note.level) == ("other-formats-present", "note")
    assert "dlprof_csv" in note.message


def test_a_run_folder_comes_first_and_its_raw_files_are_no_other_format(tmp_path: Path) -> None:
    profile = open_profile(fill(tmp_path, "run.json", "raw/plugins/a.pb"), readers())
    assert profile.metadata.format == "run_folder"
    assert profile.metadata.notes == ()


def test_files_of_one_folder_are_read_together(tmp_path: Path) -> None:
    chosen = readers()
    open_profile(fill(tmp_path, "host1.pb", "host2.pb"), chosen)
    assert [[p.name for p in files] for files in chosen[1].seen] == [["host1.pb", "host2.pb"]]


def test_several_runs_are_listed_the_newest_first_and_none_is_guessed(tmp_path: Path) -> None:
    fill(tmp_path, "run1/a.pb", "run2/a.pb")
    os.utime(tmp_path / "run1", (1, 1))
    error = failure(tmp_path)
    assert isinstance(error, UsageError)
    assert error.message.endswith(
        f"2 profiles below this directory, the newest first: {tmp_path}/run2, {tmp_path}/run1"
    )
    assert error.hint == f"name one of them, as in: tcprobe report {tmp_path}/run2"


@pytest.mark.parametrize(
    ("early", "late"), [("2026_01_02_03_04_05", "2026_01_02_03_04_06"), ("gan-20261121T050102Z", "a-20261122T040102Z")]
)
def test_the_newest_is_the_latest_by_name_where_names_have_times(early: str, late: str, tmp_path: Path) -> None:
    fill(tmp_path, f"{early}/a.pb", f"{late}/a.pb")
    os.utime(tmp_path / late, (1, 1))  # a copy has lost its own
    assert str(failure(tmp_path).hint).endswith(late)


def test_what_lies_in_the_directory_itself_is_listed_by_file(tmp_path: Path) -> None:
    fill(tmp_path, "a b.pb", "below/c.pb")
    os.utime(tmp_path / "below", (1, 1))
    error = failure(tmp_path)
    assert f"{tmp_path}/a b.pb, {tmp_path}/below" in error.message
    assert error.hint == f"name one of them, as in: tcprobe report '{tmp_path}/a b.pb'"


@pytest.mark.parametrize("path", ["samples/dlprof", "samples/xplane", "samples/dlprof/simple_0.16_json"])
def test_the_hint_never_names_what_was_refused(path: str) -> None:
    folder = shared(path)
    with pytest.raises(UsageError) as caught:
        open_profile(folder)
    named = Path(str(caught.value.hint).split("tcprobe report ")[1])
    assert folder in named.parents
    open_profile(named)


def test_many_runs_are_counted_not_listed(tmp_path: Path) -> None:
    assert "and 12 more" in failure(fill(tmp_path, *(f"run{i:02}/a.pb" for i in range(20)))).message


def test_a_missing_path_names_its_neighbour(tmp_path: Path) -> None:
    fill(tmp_path, "train.pb")
    error = failure(tmp_path / "tain.pb")
    assert isinstance(error, MissingInput)
    assert error.hint == f"did you mean {tmp_path / 'train.pb'}?"


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    assert f"{tmp_path / 'no'} does not exist" in str(failure(tmp_path / "no" / "a.pb").hint)


def test_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "a.pb").touch()
    error = failure(tmp_path / "a.pb")
    assert isinstance(error, EmptyInput)
    assert "empty" in error.message


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"hello world\n", "text that starts with 'hello world'"),
        (b"\n\n  \n", "text that starts with ''"),
        (b"SQLite format 3\0rest", "an SQLite database"),
        (b"\x1f\x8b\x08\x00", "gzip data"),
        (b"PK\x03\x04", "a zip archive"),
        (b"\xff\xfe\x00\x01", "no known format"),
        (b"\x1b[31mred" + b"y" * 100, "'\\x1b[31mred"),
    ],
)
def test_a_foreign_file_is_described(content: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "thing.bin").write_bytes(content)
    error = failure(tmp_path / "thing.bin")
    assert isinstance(error, WrongFormat)
    assert said in error.message
    assert "xplane.pb" in str(error.hint)


def test_a_text_cut_within_a_character_is_still_text(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x" + "é" * 400, encoding="utf-8")
    assert "text that starts with" in failure(tmp_path / "a.txt").message


def test_a_directory_without_a_profile_says_what_it_holds(tmp_path: Path) -> None:
    error = failure(fill(tmp_path, "model.py", "notes.txt"))
    assert isinstance(error, EmptyInput)
    assert "it holds model.py, notes.txt" in error.message


def test_an_empty_directory(tmp_path: Path) -> None:
    assert "it is empty" in failure(tmp_path).message


def test_an_unreadable_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    fill(tmp_path, "a.pb")
    monkeypatch.setattr("tcprobe.foreign.os.open", refuse)
    error = failure(tmp_path / "a.pb")
    assert isinstance(error, UnreadableInput)
    assert "Permission denied" in error.message


def test_a_name_too_long_is_no_traceback() -> None:
    assert isinstance(failure(Path("a" * 5000)), MissingInput | UnreadableInput)
