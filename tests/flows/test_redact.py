"""`redact`: made databases of each version's form, and a recording with a planted variable, hold nothing afterwards."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tcprobe.errors import MissingInput
from tcprobe.flows.profile import ProfileOptions, profile
from tcprobe.flows.redact import NothingToRedact, redact
from tcprobe.flows.report import make_report
from tcprobe.report.doctor import lines_of
from tests import warm
from tests.support import shared

SECRET = "planted-7f3e9"
BLOCK = f"HOME=/root\0MY_TOKEN={SECRET}\0ODD\0PATH=/bin"
TABLES = """
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE TARGET_INFO_SYSTEM_ENV (name TEXT, value TEXT);
CREATE TABLE META_DATA_CAPTURE (name TEXT, value TEXT);
CREATE TABLE NVTX_EVENTS (start INT, textId INT);
CREATE TABLE {streams} (globalPid INT, filenameId INT, contentId INT);
"""


def recording(path: Path, streams: str = "PROCESS_STREAMS") -> Path:
    """A database with a secret in each place, one page of them freed before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as database:
        database.executescript(TABLES.format(streams=streams))
        rows = [(1, "kernel_a"), (2, BLOCK), (3, f"stdout {SECRET}\n"), (4, f"{SECRET} " * 999), (5, "a\0b\0c=d")]
        rows += [(6, f"LC_ALL\0LANG\0LANGUAGE\0API_TOKEN={SECRET}"), (7, f"api_token={SECRET}"), (8, "lr=0.1")]
        database.executemany("INSERT INTO StringIds VALUES (?, ?)", rows)
        database.execute("DELETE FROM StringIds WHERE id = 4")
        database.execute(f"INSERT INTO {streams} VALUES (1, 1, 3)")
        database.execute("INSERT INTO NVTX_EVENTS VALUES (7, 8)")
        host = [("Hostname", "node7"), ("DeviceEnvironment", f"RANK=3\0NCCL_DEBUG=INFO\0MY_TOKEN={SECRET}")]
        database.executemany("INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES (?, ?)", host)
        captured = [("PROCESS_0:ARGUMENT_0", "--x"), ("PROCESS_0:ENVIRONMENT_VARIABLE", f'MY_TOKEN="{SECRET}"')]
        captured += [("PROCESS_1:ENVIRONMENT_VARIABLE", 'CUDA_VISIBLE_DEVICES="1"')]
        database.executemany("INSERT INTO META_DATA_CAPTURE VALUES (?, ?)", captured)
        database.commit()
    return path


def texts(path: Path, table: str) -> dict[object, str]:
    with closing(sqlite3.connect(path)) as database:
        return dict(database.execute(f"SELECT * FROM {table}"))


@pytest.mark.parametrize("streams", ["PROCESS_STREAMS", "ProcessStreams"])
def test_no_byte_of_the_environment_is_left(tmp_path: Path, streams: str) -> None:
    made = recording(tmp_path / "report.sqlite", streams)
    made.chmod(0o640)
    assert SECRET.encode() in made.read_bytes()
    done = redact(made)
    assert (done.cleaned[0].variables, done.cleaned[0].printed, done.left) == (14, 1, ())
    assert SECRET.encode() not in made.read_bytes() and made.stat().st_mode & 0o777 == 0o640
    assert texts(made, "StringIds") == {1: "kernel_a", 2: "", 3: "", 5: "", 6: "", 7: "", 8: "lr=0.1"}
    device = texts(made, "TARGET_INFO_SYSTEM_ENV")["DeviceEnvironment"]
    assert device.split("\0") == ["NCCL_DEBUG=INFO", "RANK=3", "TCPROBE_REDACTED=1"]
    assert list(texts(made, "META_DATA_CAPTURE").values()) == [
        "--x", 'TCPROBE_REDACTED="1"', 'CUDA_VISIBLE_DEVICES="1"',
    ]  # fmt: skip
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.sqlite"]
    again = redact(made)
    assert (again.cleaned[0].variables, again.cleaned[0].printed) == (0, 0)


def a_run(folder: Path) -> Path:
    recording(folder / "raw/nsys/report.sqlite")
    (folder / "raw/nsys/report.nsys-rep").write_bytes(b"binary")
    (folder / "raw/nsys/other.qdstrm").write_bytes(b"binary")
    notes = [{"code": "private-files", "message": "all"}, {"code": "x", "message": "y"}]
    (folder / "run.json").write_text(json.dumps({"tcprobe": "0", "notes": notes}), encoding="utf-8")
    return folder


def codes(folder: Path) -> list[str]:
    return [note["code"] for note in json.loads((folder / "run.json").read_text("utf-8"))["notes"]]


def test_what_cannot_be_cleaned_is_named_or_deleted_but_not_what_is_nowhere_else(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run")
    done = redact(run)
    assert [(Path(one.path).name, one.reason) for one in done.left] == [
        ("other.qdstrm", "only_recording"), ("report.nsys-rep", "environment"),
    ]  # fmt: skip
    assert codes(run) == ["private-files", "x"]
    assert "other.qdstrm, report.nsys-rep: still with" in (run / "run.json").read_text("utf-8")
    done = redact(run, delete=True)
    assert [Path(path).name for path in done.deleted] == ["report.nsys-rep"]
    assert [(Path(one.path).name, one.reason) for one in done.left] == [("other.qdstrm", "only_recording")]
    (run / "raw/nsys/other.qdstrm").unlink()
    assert redact(run).left == () and codes(run) == ["private-files", "x"]
    assert "report.sqlite: still with the arguments of the run" in (run / "run.json").read_text("utf-8")
    (run / "probe").mkdir()  # the probe ran, and the workload's arguments were in a file
    (run / "probe/probe.json").write_text("{}")
    assert redact(run).cleaned[0].arguments == 1 and codes(run) == ["x"]


def test_the_command_line_in_the_database_of_dlprof_stays_in_the_note(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run")
    for path in ("raw/nsys/report.nsys-rep", "raw/nsys/other.qdstrm"):
        (run / path).unlink()
    (run / "probe").mkdir()
    (run / "probe/probe.json").write_text("{}")
    (run / "raw/dlprof_dldb.sqlite").write_bytes(b"")
    redact(run)
    assert "dlprof_dldb.sqlite: still with the arguments of the run" in (run / "run.json").read_text("utf-8")


@pytest.mark.parametrize("version", [sqlite3.sqlite_version_info, (3, 26, 0)])
def test_what_a_link_leads_to_is_cleaned(
    tmp_path: Path, version: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", version)
    made, link = recording(tmp_path / "there/real"), tmp_path / "link.sqlite"
    link.symlink_to(made)
    assert redact(link).cleaned[0].variables == 14
    assert link.is_symlink() and SECRET.encode() not in made.read_bytes()
    assert [path.name for path in made.parent.iterdir()] == ["real"]


def test_what_a_killed_redact_left_is_cleaned_or_named(tmp_path: Path) -> None:
    made = recording(tmp_path / "a.sqlite")
    whole, part = recording(tmp_path / ".a.sqlite.redacted-17"), tmp_path / ".a.sqlite.redacted-18"
    part.write_bytes(made.read_bytes()[:5000])
    for path in (made, tmp_path):
        done = redact(path)
        assert {Path(one.path) for one in done.cleaned} == {made, whole}
        assert [Path(one.path) for one in done.left] == [part]
    assert SECRET.encode() not in whole.read_bytes()


def test_a_variable_that_is_not_utf_8_stays_as_it_was(tmp_path: Path) -> None:
    made, kept = recording(tmp_path / "a.sqlite"), b"XLA_FLAGS=--dump=/home/jos\xe9"
    with closing(sqlite3.connect(made)) as database:
        for table, name in (
            ("TARGET_INFO_SYSTEM_ENV", "DeviceEnvironment"),
            ("META_DATA_CAPTURE", "P:ENVIRONMENT_VARIABLE"),
        ):
            database.execute(f"INSERT INTO {table} VALUES (?, CAST(? AS TEXT))", (name, kept))
        database.commit()
    redact(made)
    with closing(sqlite3.connect(made)) as database:
        database.text_factory = bytes
        held = [
            value
            for (value,) in database.execute("SELECT value FROM TARGET_INFO_SYSTEM_ENV WHERE typeof(value) = 'text'")
        ]
        assert held[-1] == kept + b"\0TCPROBE_REDACTED=1"
        assert (
            database.execute("SELECT value FROM META_DATA_CAPTURE").fetchall()[-1][0]
            == kept.replace(b"=", b'="', 1) + b'"'
        )


@pytest.mark.parametrize("version", ["2023.1", "2023.4"])
def test_variables_without_a_value_hide_no_environment(tmp_path: Path, version: str) -> None:
    made = tmp_path / "report.sqlite"
    shutil.copyfile(shared(f"samples/nsys/rtx3090_tensorrt_nsys{version}.sqlite"), made)
    assert texts(made, "StringIds")[14].startswith("LC_PAPER\0") and "LC_NUMERIC=" in texts(made, "StringIds")[52]
    redact(made)
    left = texts(made, "StringIds")
    assert left[14] == left[52] == "" and not any("\0" in text for text in left.values())


def test_a_damaged_or_busy_database_stays_as_it_was(tmp_path: Path) -> None:
    damaged = tmp_path / "a.sqlite"
    damaged.write_bytes(recording(tmp_path / "b.sqlite").read_bytes()[:5000] + b"\xff" * 3000)
    before = damaged.read_bytes()
    (tmp_path / "b.sqlite-wal").write_bytes(b"x")
    done = redact(tmp_path)
    assert [(Path(one.path).name, one.reason) for one in done.left] == [
        ("a.sqlite", "refused"),
        ("b.sqlite", "being_written"),
    ]
    assert damaged.read_bytes() == before and len(list(tmp_path.iterdir())) == 3
    assert any("a damaged database" in line for line in lines_of(done))


def test_nothing_to_redact_is_said(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "mine.sqlite")) as database:
        database.execute("CREATE TABLE mine (x)")
    with pytest.raises(NothingToRedact, match="holds no file of Nsight Systems"):
        redact(tmp_path)
    with pytest.raises(MissingInput):
        redact(tmp_path / "nosuch")


def test_the_command_says_each_file_and_whether_anything_is_left(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run")
    done = warm.run_tcprobe("redact", run)
    assert done.returncode == 1 and done.stdout.splitlines()[-1] == "2 files left with private data"
    done = warm.run_tcprobe("redact", "--json", run / "raw/nsys/report.sqlite")
    assert done.returncode == 0 and json.loads(done.stdout)["cleaned"][0]["variables"] == 0


def test_a_report_of_a_recording_stays_the_same(tmp_path: Path) -> None:
    made = tmp_path / "report.sqlite"
    shutil.copyfile(shared("samples/nsys/h100x2_bf16_after_nsys2026.sqlite"), made)
    before = make_report(made)
    assert b'HF_HOME="' in made.read_bytes() and redact(made).cleaned[0].variables > 50
    assert b'HF_HOME="' not in made.read_bytes()
    after = make_report(made)
    assert [list(table.rows()) for table in after.tables.values()] == [list(t.rows()) for t in before.tables.values()]
    gone = {note.code for note in before.metadata.notes} - {note.code for note in after.metadata.notes}
    assert gone == {"environment-inside"} and after.metadata.command == before.metadata.command


@pytest.mark.nsys
def test_a_planted_variable_is_in_no_file_of_ours_and_gone_from_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "work.py").write_text("import tcprobe\nfor _ in range(9):\n    with tcprobe.step():\n        pass\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MY_TOKEN", SECRET)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    outcome = profile(ProfileOptions(("work.py",), "nsys", output=tmp_path / "run"))
    held = {path.name for path in outcome.folder.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()}
    assert held and held <= {"report.nsys-rep", "report.sqlite"}
    outcome = profile(ProfileOptions(("work.py",), "nsys", output=tmp_path / "other", no_environment=True))
    assert outcome.failure is None and outcome.report is not None
    left = {path.name for path in outcome.folder.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()}
    assert not left and (outcome.folder / "raw/nsys/report.sqlite").is_file()
    assert not {"private-files", "environment-inside"} & {note.code for note in outcome.report.metadata.notes}
