"""The run folder is renamed when whole, and nothing is ever written over."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import stat
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import pytest

from tcprobe.capture import folder
from tcprobe.errors import OutputError


def run_at(path: Path) -> Path:
    """Make an earlier run folder."""
    path.mkdir(parents=True)
    (path / "run.json").write_text('{"tcprobe": "0"}')
    (path / "raw").mkdir()
    return path


def test_a_folder_lies_beside_its_final_name_until_it_is_sealed(tmp_path: Path) -> None:
    home = folder.make_folder(tmp_path / "a" / "run", "x")
    assert home.path.parent == tmp_path / "a"
    assert home.path.name.startswith(".partial-run-")
    assert sorted(p.name for p in home.path.iterdir()) == [".reserve", "probe", "raw"]
    folder.write_record(home.path, {"tcprobe": "1"})
    assert folder.seal(home) == tmp_path / "a" / "run"
    assert [p.name for p in (tmp_path / "a").iterdir()] == ["run"]
    assert json.loads((tmp_path / "a/run/run.json").read_text()) == {"tcprobe": "1"}


def test_a_folder_is_its_owners_alone_but_where_it_is_shared(tmp_path: Path) -> None:
    for share, rights in ((False, 0o700), (True, 0o750)):
        before = os.umask(0o027)
        try:
            home = folder.make_folder(tmp_path / "run", "x", share=share)
            (home.path / "raw/made").touch(0o666)
            (home.path / "raw/made").chmod(0o666)
            (home.path / "raw/link").symlink_to(tmp_path)
        finally:
            os.umask(before)
        assert [stat.S_IMODE(p.stat().st_mode) for p in (home.path, home.path / "raw")] == [0o700] * 2
        final = folder.seal(home)
        modes = [stat.S_IMODE(p.stat().st_mode) for p in (final, final / "raw", final / "raw/made", tmp_path)]
        assert modes == [rights, rights, rights & 0o666, 0o700]
        shutil.rmtree(final)


def test_a_derived_name_holds_the_label_and_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    home = folder.make_folder(None, "my train/../x")
    final = folder.seal(home)
    assert re.fullmatch(r"tcprobe-runs/my_train_.._x-\d{8}T\d{6}Z", str(final))
    assert (tmp_path / final / "raw").is_dir()


def test_runs_of_one_second_get_names_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(folder, "_stamp", lambda label: label)
    homes = [folder.make_folder(None, "x") for _ in range(3)]
    assert [folder.seal(home).name for home in homes] == ["x", "x-2", "x-3"]


@pytest.mark.parametrize("force", [False, True])
def test_a_foreign_folder_is_never_touched(tmp_path: Path, force: bool) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.tex").write_text("years of work")
    with pytest.raises(OutputError, match=r"exists already|is no run folder"):
        folder.make_folder(tmp_path / "run", "x", force)
    assert [p.name for p in tmp_path.iterdir()] == ["run"]
    assert (tmp_path / "run" / "thesis.tex").read_text() == "years of work"


@pytest.mark.parametrize("force", [False, True])
def test_a_file_or_link_of_that_name_is_never_touched(tmp_path: Path, force: bool) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to(run_at(tmp_path / "earlier"))
    for name in ("file", "link"):
        with pytest.raises(OutputError):
            folder.make_folder(tmp_path / name, "x", force)
    assert (tmp_path / "earlier" / "run.json").exists()


def test_an_empty_folder_may_become_the_run(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    home = folder.make_folder(tmp_path / "run", "x")
    assert (folder.seal(home) / "raw").is_dir()


def test_an_earlier_run_is_replaced_by_force_and_only_when_the_new_one_is_whole(tmp_path: Path) -> None:
    old = run_at(tmp_path / "run")
    with pytest.raises(OutputError, match="exists already") as caught:
        folder.make_folder(old, "x")
    assert "--force" in str(caught.value.hint)
    home = folder.make_folder(old, "x", force=True)
    assert json.loads((old / "run.json").read_text()) == {"tcprobe": "0"}
    folder.write_record(home.path, {"tcprobe": "1"})
    folder.seal(home)
    assert json.loads((old / "run.json").read_text()) == {"tcprobe": "1"}
    assert [p.name for p in tmp_path.iterdir()] == ["run"]


def test_a_name_that_is_taken_meanwhile_costs_no_run(tmp_path: Path) -> None:
    home = folder.make_folder(tmp_path / "run", "x")
    run_at(tmp_path / "run")
    assert folder.seal(home) == tmp_path / "run-2"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run", "run-2"]


def test_force_does_not_reach_what_came_meanwhile_and_is_no_run(tmp_path: Path) -> None:
    home = folder.make_folder(tmp_path / "run", "x", force=True)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine").write_text("x")
    assert folder.seal(home) == tmp_path / "run-2"
    assert (tmp_path / "run" / "mine").exists()


def test_a_place_that_cannot_be_written_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(OutputError, match=r"cannot be written: (Not a directory|File exists)"):
        folder.make_folder(tmp_path / "file" / "run", "x")


def test_a_full_disk_is_refused_before_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Usage(NamedTuple):
        free: int

    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(3 * 2**20))
    with pytest.raises(OutputError, match="only 3 MB are free"):
        folder.make_folder(tmp_path / "run", "x")
    assert list(tmp_path.iterdir()) == []


def test_a_record_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    folder.write_record(tmp_path, {"tcprobe": "1"})
    with pytest.raises(TypeError):
        folder.write_record(tmp_path, {"tcprobe": object()})
    assert json.loads((tmp_path / "run.json").read_text()) == {"tcprobe": "1"}
    with pytest.raises(OutputError, match=r"run\.json: cannot be written: No such file"):
        folder.write_record(tmp_path / "gone", {})


def test_a_rename_that_fails_keeps_the_run_and_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = folder.make_folder(tmp_path / "a" / "run", "x")
    monkeypatch.setattr(Path, "replace", refuse(errno.EXDEV))
    with pytest.raises(OutputError, match=r"cannot be renamed .* Invalid cross-device link") as failed:
        folder.seal(home)
    assert failed.value.hint == f"the run is kept: tcprobe report {home.path}"


def test_a_rename_that_fails_puts_the_earlier_run_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_at(tmp_path / "run")
    home = folder.make_folder(tmp_path / "run", "x", force=True)
    replace = Path.replace

    def stale(path: Path, to: Path) -> Path:
        return refuse(errno.ESTALE)(path, to) if path == home.path else replace(path, to)

    monkeypatch.setattr(Path, "replace", stale)
    with pytest.raises(OutputError, match="Stale file handle"):
        folder.seal(home)
    assert sorted(tmp_path.iterdir()) == sorted([home.path, tmp_path / "run"])
    assert folder.is_run_folder(tmp_path / "run")


def refuse(number: int) -> Callable[..., NoReturn]:
    def refused(*_: object) -> NoReturn:
        raise OSError(number, os.strerror(number))

    return refused


def test_a_folder_that_is_gone_is_said_to_be(tmp_path: Path) -> None:
    home = folder.make_folder(tmp_path / "run", "x")
    home.path.rename(tmp_path / "moved")
    with pytest.raises(OutputError, match="is gone"):
        folder.seal(home)
    home = folder.make_folder(tmp_path / "run", "x")
    shutil.rmtree(home.path)
    with pytest.raises(OutputError, match="is gone"):
        folder.seal(home)
    assert [path.name for path in tmp_path.iterdir()] == ["moved"]


def test_a_folder_in_place_of_another_is_told_from_a_link_to_it(tmp_path: Path) -> None:
    home = folder.make_folder(tmp_path / "run", "x")
    assert not folder.was_replaced(home)
    home.path.rename(tmp_path / "moved")
    assert not folder.was_replaced(home)  # it is gone
    home.path.symlink_to(tmp_path / "moved")
    assert not folder.was_replaced(home)
    home.path.unlink()
    home.path.mkdir()
    assert folder.was_replaced(home)


def test_runs_that_end_together_each_keep_a_folder(tmp_path: Path) -> None:
    for force in (False, True):
        homes = [folder.make_folder(tmp_path / f"{force}", "x", force) for _ in range(4)]
        with ThreadPoolExecutor() as pool:
            finals = list(pool.map(folder.seal, homes))
        assert len(set(finals)) == 4
        assert all(final.is_dir() for final in finals)


def test_force_replaces_the_run_that_was_there_and_none_that_came_since(tmp_path: Path) -> None:
    earlier = run_at(tmp_path / "run")
    (earlier / "earlier").touch()
    homes = [folder.make_folder(tmp_path / "run", "x", force=True) for _ in range(2)]
    for home in homes:
        folder.write_record(home.path, {"tcprobe": "1"})
    assert [folder.seal(home).name for home in homes] == ["run", "run-2"]
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == ["run.json", "run.json"]


def test_the_last_record_has_room_kept_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = folder.make_folder(tmp_path / "run", "x")
    write = folder._write

    def full(path: Path, record: Mapping[str, Any]) -> None:
        if (path / ".reserve").exists():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(path, record)

    monkeypatch.setattr(folder, "_write", full)
    with pytest.raises(OutputError, match="No space left"):
        folder.write_record(home.path, {})
    folder.write_last_record(home.path, {"a": 1}, {"a": 2})
    assert json.loads((home.path / "run.json").read_text()) == {"a": 2}
    assert sorted(p.name for p in folder.seal(home).iterdir()) == ["probe", "raw", "run.json"]
