"""`to_sqlite` with the real nsys where it is on PATH, and with programs in its place that fail as it does."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from tcprobe.errors import EmptyInput, InputError, UnreadableInput, UnsupportedVersion, WrongFormat
from tcprobe.readers.nsys import database
from tcprobe.readers.nsys.database import REPORT, STREAM, looks_like_report, to_sqlite
from tcprobe.readers.open import open_profile
from tests.readers.nsys.made import small
from tests.support import ROOT

SAMPLE = ROOT.parent / "shared/samples/nsys/too_new_for_nsys2022.nsys-rep"
VERSION = "NVIDIA Nsight Systems version 2022.4.2.1-df9881f"


@pytest.fixture
def report(tmp_path: Path) -> Path:
    """A file that begins as a report does."""
    path = tmp_path / "run.nsys-rep"
    path.write_bytes(REPORT + b"1.\n\x0bLocal (CLI)")
    return path


@pytest.fixture
def nsys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The place of the only nsys on PATH; `tmp_path/tmp` is where temporary files go."""
    place = tmp_path / "bin/nsys"
    for folder in (place.parent, tmp_path / "tmp"):
        folder.mkdir()
    monkeypatch.setenv("PATH", f"{place.parent}:/usr/bin:/bin")
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", None)
    return place


def plays(nsys: Path, script: str) -> None:
    """Make a program of this shell script; `$out` is where it is to write, `$in` what it is to read."""
    parts = '[ "$1" = --version ] && echo ' + VERSION + " && exit 0\nout=${3#--output=}; in=$4\n"
    nsys.write_text(f"#!/bin/sh\n{parts}{script}\n")
    nsys.chmod(0o755)


def refused(path: Path) -> InputError:
    with pytest.raises(InputError) as raised, to_sqlite(path):
        pass
    return raised.value


def leftovers(nsys: Path) -> list[str]:
    return sorted(p.name for p in (nsys.parents[1] / "tmp").iterdir())


def test_what_nsys_writes_is_there_and_gone_afterwards(
    report: Path, nsys: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    database = nsys.with_name("made")
    with closing(sqlite3.connect(database)) as made:
        made.execute("CREATE TABLE StringIds (id, value)")
    plays(nsys, f'echo progress; grep -q Tegra "$in" && cp {database} "$out"')
    before = sorted(report.parent.iterdir())
    with to_sqlite(report) as exported:
        with closing(sqlite3.connect(exported)) as opened:
            assert opened.execute("SELECT count(*) FROM StringIds").fetchone() == (0,)
        assert not exported.is_relative_to(report.parent / "run")
    assert sorted(report.parent.iterdir()) == before
    assert not leftovers(nsys)
    out, err = capfd.readouterr()
    assert out == ""
    assert err == f"tcprobe: {report}: exporting 44 bytes to SQLite with {nsys}\n"


def test_a_report_is_read_through_nsys_and_named_as_the_user_did(report: Path, nsys: Path) -> None:
    database = small().write(nsys.with_name("made"))
    plays(nsys, f'cp {database} "$out"')
    report.with_suffix(".qdstrm").write_bytes(STREAM)  # what the report was made of
    for path in (report, report.parent):
        profile = open_profile(path)
        assert profile.metadata.paths == (str(report),)
        assert len(profile.require("launches")) == 4
    assert not leftovers(nsys)


def test_no_nsys_on_path_names_the_command_to_run_elsewhere(report: Path, nsys: Path) -> None:
    error = refused(report)
    assert isinstance(error, UnreadableInput)
    assert "no nsys is on PATH" in error.message
    assert error.hint is not None
    assert error.hint.endswith("nsys export --type=sqlite --output=run.sqlite run.nsys-rep")


@pytest.mark.parametrize(
    ("header", "says", "named"),
    [
        ("2025@5@1@121-255136380782v0.", "Exportation error: Version number is invalid: 2025@5@1", "Systems 2025.5.1;"),
        ("2026@1@2@63-261236v0.", "it fell over", "Nsight Systems 2026.1.2; on PATH is nsys 2022.4.2"),
        ("1.", "Please update your Nsight Systems to open it.", "which it does not name; on PATH is nsys 2022.4.2"),
        ("1.", "terminate called: ProtobufParseException", "another version of Nsight Systems"),
    ],
)
def test_a_report_of_a_newer_nsys_names_both_versions(
    header: str, says: str, named: str, report: Path, nsys: Path
) -> None:
    report.write_bytes(REPORT + header.encode() + b"\nrest")
    plays(nsys, f"echo '{says}' >&2; exit 1")
    error = refused(report)
    assert isinstance(error, UnsupportedVersion)
    assert named in error.message
    assert "later" in (error.hint or "")
    assert not leftovers(nsys)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo 'Exportation error: Section Table Reference magic number mismatch.' >&2; exit 1", "magic number"),
        ("exit 0", "exited with status 0 and wrote no table"),
        (': > "$out"', "wrote no table"),
        ('echo text > "$out"', "wrote no table"),
        ("kill -SEGV $$", "died of SIGSEGV"),
    ],
)
def test_an_export_that_fails_is_one_error_whatever_its_status(
    script: str, said: str, report: Path, nsys: Path
) -> None:
    plays(nsys, script)
    error = refused(report)
    assert isinstance(error, WrongFormat)
    assert said in error.message
    assert "damaged, cut off or still written" in error.message
    assert not leftovers(nsys)


def test_a_full_disk_is_told_though_nsys_ends_with_status_0(report: Path, nsys: Path) -> None:
    plays(nsys, ': > "$out"; echo "[QuadDCommon::tag_message*] = database or disk is full" >&2; exit 0')
    error = refused(report)
    assert f"does not fit in {nsys.parents[1] / 'tmp'}" in error.message
    assert "TMPDIR" in (error.hint or "")


def test_an_export_without_end_is_ended(report: Path, nsys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "LEAST_S", 0.05)
    plays(nsys, "sleep 60")
    assert "did not export it within" in refused(report).message
    assert not leftovers(nsys)


def test_an_nsys_that_does_not_start_is_named(report: Path, nsys: Path) -> None:
    nsys.write_text("#!/nowhere/sh\n")
    nsys.chmod(0o755)
    assert f"{nsys}: it does not start" in refused(report).message


def test_ctrl_c_ends_nsys_and_leaves_nothing(report: Path, nsys: Path) -> None:
    begun = nsys.with_name("begun")
    plays(nsys, f'echo $$ > {begun}; echo half > "$out"; sleep 60')
    code = (
        "from pathlib import Path; from tcprobe.readers.nsys.database import *\n"
        f"with to_sqlite(Path({str(report)!r})): 1"
    )
    with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL) as process:
        while not (begun.exists() and begun.read_text().endswith("\n")):
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        process.wait(10)
    assert not leftovers(nsys)
    with pytest.raises(ProcessLookupError):
        os.kill(int(begun.read_text()), 0)


def test_empty_and_foreign_files_and_streams_never_reach_nsys(tmp_path: Path, nsys: Path) -> None:
    plays(nsys, f"touch {tmp_path / 'ran'}")
    empty, text, stream = (tmp_path / name for name in ("a.nsys-rep", "b.nsys-rep", "c.qdstrm"))
    empty.touch()
    text.write_text("Time (%)\n")
    stream.write_bytes(STREAM + b"2022.4.2.1-df9881f!")
    assert isinstance(refused(empty), EmptyInput)
    assert "no report of Nsight Systems" in refused(text).message
    assert "QdstrmImporter --input-file=" in (refused(stream).hint or "")
    assert [looks_like_report(path) for path in (empty, text, stream, tmp_path, tmp_path / "none")] == [
        *(False, False, True, False, False)
    ]
    assert not (tmp_path / "ran").exists()


@pytest.mark.nsys
@pytest.mark.skipif(not SAMPLE.is_file(), reason="no ../shared/samples/nsys")
def test_a_real_report_that_is_too_new(tmp_path: Path) -> None:
    error = refused(SAMPLE)
    assert isinstance(error, UnsupportedVersion)
    assert "written by Nsight Systems 2025.5.1" in error.message


@pytest.mark.nsys
def test_a_real_report_whole_and_cut_off(tmp_path: Path) -> None:
    made = tmp_path / "odd name"
    command = ["nsys", "profile", "--trace=nvtx", "--sample=none", "--cpuctxsw=none", f"--output={made}", "true"]
    subprocess.run(command, check=True, capture_output=True)
    made.with_suffix(".nsys-rep").rename(made)
    assert looks_like_report(made)
    tmp_path.chmod(0o555)
    with to_sqlite(made) as database, closing(sqlite3.connect(database)) as opened:
        assert opened.execute("SELECT count(*) FROM StringIds").fetchone()[0] > 0
    tmp_path.chmod(0o755)
    assert [path.name for path in tmp_path.iterdir()] == ["odd name"]
    made.write_bytes(made.read_bytes()[:1000])
    assert "cut off" in refused(made).message


def test_another_program_called_nsys_is_not_the_reports_fault(report: Path, nsys: Path) -> None:
    nsys.write_text("#!/bin/sh\necho hello\n")
    nsys.chmod(0o755)
    error = refused(report)
    assert isinstance(error, UnreadableInput)
    assert f"{nsys} is another program: --version printed 'hello'" in error.message
    assert not leftovers(nsys)
