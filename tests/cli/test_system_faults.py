"""Faults of the system around a command: a named error and exit code 2 where a result is lost, else the result.

No fault of these is a bug of tcprobe (exit code 3), a traceback, or Python's 120 for output that was not flushed.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from tcprobe.cli.ending import report_bug
from tcprobe.errors import OutputError, TcprobeError, cannot_write, not_ours
from tcprobe.flows.write import write_files
from tests.cli.forked import FAULTS
from tests.fixtures import xplane
from tests.support import ROOT, mostly_long

SCRIPT: Final = """import keras
sizes = [keras.layers.Dense(4090), keras.layers.Dense(4096), keras.layers.Dense(1001)]
model = keras.Sequential([keras.Input((4096,)), *sizes])
model.compile("adam", "mse")
"""
PROFILE: Final = str(Path(xplane.__file__).parent / "two_gpus.xplane.pb")
OTHER: Final = str(ROOT / "tests/fixtures/gpu_run/run")
COMMANDS: Final = {
    "report": ["report", PROFILE],
    "report as JSON": ["report", PROFILE, "--format", "json"],
    "report as CSV": ["report", PROFILE, "--format", "csv", "--by", "kernel"],
    "report as Markdown": ["report", PROFILE, "--format", "markdown"],
    "report of nothing": ["report", "absent", "--format", "json"],
    "compare": ["compare", PROFILE, OTHER, "--fail-if", "kernels>0"],
    "compare as JSON": ["compare", PROFILE, OTHER, "--format", "json", "--fail-if", "kernels>0"],
    "audit": ["audit-shapes", "train.py", "--mode", "source"],
    "audit as SARIF": ["audit-shapes", "train.py", "--mode", "source", "--format", "sarif"],
    "audit for GitHub": ["audit-shapes", "train.py", "--mode", "source", "--format", "github"],
    "diff": ["audit-shapes", "train.py", "--mode", "source", "--diff"],
    "explain": ["explain", "TC101"],
    "workloads": ["workloads"],
    "calibrations": ["calibrate", "--show"],
    "help": ["--help"],
    "help of a verb": ["report", "--help"],
    "version": ["--version"],
    "completion": ["--show-completion", "bash"],
    "misuse": ["report"],
}
RESULT_LOST: Final = ("stdout full", "stdout closed", "stdout and stderr closed", "all closed")
HARMLESS: Final = ("stderr full", "stderr closed", "stdin closed", "no home", "home of another", "terminal", "ascii")
EVERY: Final = {"none", "stdout full"}
"""Faults that every command is tried under; the others change nothing in how a format is printed."""
DIFFERENT: Final = ("report", "report as JSON", "report of nothing", "audit", "help", "misuse")
"""Commands that come to their end in a way of their own; the others print as one of these does."""
FAILS_ANYWAY: Final = ("report of nothing", "misuse")
SAID: Final = {
    "stdout full": "tcprobe: error: standard output: cannot be written: No space left on device\nhint: make room",
    "stdout closed": "tcprobe: error: standard output: cannot be written: Bad file descriptor\nhint: it is closed",
}
WRITING: Final = {
    "file": ["report", PROFILE, "-o", "out/new.json"],
    "folder": ["report", PROFILE, "-o", "out/tables/"],
    "replaced": ["report", PROFILE, "-o", "out/old.json", "--force"],
    "audit": ["audit-shapes", "out/train.py", "--mode", "source", "-o", "out/new.sarif"],
    "fix": ["audit-shapes", "out/train.py", "--mode", "source", "--fix"],
    "baseline": ["audit-shapes", "out/train.py", "--mode", "source", "--baseline", "out/b.json", "--write-baseline"],
}
NOT_WRITTEN: Final = {"small files": "File too large", "unprivileged": "Permission denied"}


class Ended(NamedTuple):
    code: int
    out: str
    err: str
    left: dict[str, str]


def _is_short(case: tuple[str, str]) -> bool:
    return case[0] in EVERY or case[1] in DIFFERENT


def _among(*faults: str) -> list[Any]:
    return mostly_long(product(faults, COMMANDS), _is_short)


def _cases(long: bool) -> Iterator[tuple[str, str]]:
    every = product(("none", *RESULT_LOST, *HARMLESS), COMMANDS)
    yield from (case for case in every if long or _is_short(case))
    yield from ((fault, command) for fault in ("folder gone", "pipe closed") for command in ("report", "audit", "help"))
    yield from (("no files left", command) for command in ("report", "audit"))
    yield from ((fault, command) for fault in NOT_WRITTEN for command in WRITING)


@pytest.fixture(scope="module")
def ended(request: pytest.FixtureRequest) -> Iterator[dict[tuple[str, str], Ended]]:
    """How every case ended, and the files that it left; one process does them all."""
    with tempfile.TemporaryDirectory() as name:  # pytest's own folders are closed to other users
        Path(name).chmod(0o755)
        yield _run_all(Path(name), list(_cases(request.config.getoption("--long"))))


def _run_all(home: Path, keys: list[tuple[str, str]]) -> dict[tuple[str, str], Ended]:
    places = [_place(home / (str(at) if fault in NOT_WRITTEN else "shared")) for at, (fault, _) in enumerate(keys)]
    cases = [
        (fault, (WRITING if fault in NOT_WRITTEN else COMMANDS)[name], str(place))
        for (fault, name), place in zip(keys, places, strict=True)
    ]
    (home / "cases").write_text(json.dumps(cases), encoding="utf-8")
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "XDG_STATE_HOME": str(home / "state")}
    subprocess.run([sys.executable, "-m", "tests.cli.forked", str(home)], check=True, cwd=ROOT, env=environment)
    found = json.loads((home / "ended").read_text(encoding="utf-8"))
    return {key: Ended(*one, _files(place)) for key, one, place in zip(keys, found, places, strict=True)}


def _place(folder: Path) -> Path:
    out = folder / "out"
    if out.is_dir():
        return folder
    out.mkdir(parents=True)
    for script in (folder / "train.py", out / "train.py"):
        script.write_text(SCRIPT, encoding="utf-8")
    (out / "old.json").write_text("{}", encoding="utf-8")
    out.chmod(0o555)
    return folder


def _files(folder: Path) -> dict[str, str]:
    paths = (folder / "out").rglob("*")
    return {path.name: path.read_text(encoding="utf-8") if path.is_file() else "" for path in paths}


@pytest.mark.parametrize(("fault", "command"), _among(*RESULT_LOST))
def test_a_result_that_cannot_be_printed_is_an_error(
    ended: dict[tuple[str, str], Ended], fault: str, command: str
) -> None:
    done = ended[fault, command]
    assert done.code == 2, done.err
    if command not in FAILS_ANYWAY:
        assert SAID.get(fault, "") in done.err
    elif "stderr" not in fault and fault != "all closed":  # the first error is the one told
        assert done.err == ended["none", command].err


@pytest.mark.parametrize(("fault", "command"), _among(*HARMLESS))
def test_a_fault_beside_the_result_costs_nothing(ended: dict[tuple[str, str], Ended], fault: str, command: str) -> None:
    done, usual = ended[fault, command], ended["none", command]
    assert done.code == usual.code, done.err
    if "stderr" not in fault:
        assert done.err == usual.err
    if fault != "ascii":
        assert done.out == usual.out


def test_what_each_command_does_without_a_fault(ended: dict[tuple[str, str], Ended]) -> None:
    codes = {command: ended["none", command].code for command in COMMANDS}
    failing = {
        "compare": 1,
        "compare as JSON": 1,
        "report of nothing": 2,
        "misuse": 2,
        "audit": 1,
        "audit as SARIF": 1,
        "audit for GitHub": 1,
        "diff": 1,
    }
    assert codes == {command: failing.get(command, 0) for command in COMMANDS}


def test_a_reader_that_left_is_no_error(ended: dict[tuple[str, str], Ended]) -> None:
    assert {(done.code, done.err) for (fault, _), done in ended.items() if fault == "pipe closed"} == {(1, "")}


def test_a_folder_that_is_gone_is_named(ended: dict[tuple[str, str], Ended]) -> None:
    assert ended["folder gone", "report"].code == 0
    done = ended["folder gone", "audit"]
    assert (done.code, done.err.splitlines()[0]) == (2, "tcprobe: error: the current folder is gone")


@pytest.mark.parametrize("command", ["report", "audit"])
def test_a_limit_on_open_files_is_named(ended: dict[tuple[str, str], Ended], command: str) -> None:
    done = ended["no files left", command]
    assert done.code == 2
    assert "Too many open files" in done.err


@pytest.mark.parametrize("command", WRITING)
@pytest.mark.parametrize("fault", NOT_WRITTEN)
def test_what_cannot_be_written_leaves_all_as_it_was(
    ended: dict[tuple[str, str], Ended], fault: str, command: str
) -> None:
    if fault == "unprivileged" and os.getuid() and os.access("/", os.W_OK):
        pytest.skip("permissions do not bind this user")
    done = ended[fault, command]
    assert done.code == 2, done.err
    after = "; nothing w" if command == "fix" else "\nhint: "  # standard error, too, is a file that may only be small
    assert f"cannot be written: {NOT_WRITTEN[fault]}{after}" in done.err
    assert "fixed" not in done.err
    assert done.left == {"train.py": SCRIPT, "old.json": "{}"}


def test_each_fault_is_used(ended: dict[tuple[str, str], Ended]) -> None:
    assert {fault for fault, _ in ended} == set(FAULTS)


@pytest.mark.parametrize("ends", ['"$@" > /dev/full', '"$@" >&-', '"$@" 2>&- >&-'])
def test_the_interpreters_own_end(ends: str) -> None:
    """As a shell runs it, for what a fork does not have: start and end of the interpreter."""
    command = ["sh", "-c", ends, "sh", sys.executable, "-m", "tcprobe", "workloads"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == (0 if "2>" in ends else 2)


@pytest.mark.parametrize("code", [0, 7])
def test_a_run_whose_report_cannot_be_printed_is_kept_and_named(tmp_path: Path, code: int) -> None:
    (tmp_path / "work.py").write_text(f"raise SystemExit({code})", encoding="utf-8")
    command = [sys.executable, "-m", "tcprobe", "profile", "--output", "run", "-o", "report.json", "work.py"]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, cwd=tmp_path)
    said = done.stderr.splitlines()
    assert done.returncode == (code or 2)
    assert {"Wrote report.json", "tcprobe: run folder kept: run"} <= set(said)
    assert code or "tcprobe: error: standard output: cannot be written: No space left on device" in said
    assert json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert (tmp_path / "run" / "tables" / "summary.csv").is_file()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EFBIG, errno.EACCES])
def test_the_first_refusal_is_the_one_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    def unlink(*_: object, **__: object) -> None:
        raise OSError(errno.EBUSY, "masks it")

    (tmp_path / "a").write_text("old", encoding="utf-8")
    monkeypatch.setattr(Path, "unlink", unlink)
    with pytest.raises(OutputError, match=os.strerror(number)) as told:
        write_files([(tmp_path / "a", lambda out: out.write("half") and None), (tmp_path / "b", refuse)], True)
    assert told.value.hint
    assert (tmp_path / "a").read_text(encoding="utf-8") == "old"


@contextmanager
def full_disk(folder: Path) -> Iterator[Path]:
    """Provide a file system without room; skip where none may be mounted."""
    folder.mkdir()
    mount = shutil.which("mount")
    done = mount and subprocess.run([mount, "-t", "tmpfs", "-o", "size=64k", "none", str(folder)], capture_output=True)
    if not done or done.returncode:
        pytest.skip("a file system cannot be mounted here")
    try:
        (folder / "train.py").write_text(SCRIPT, encoding="utf-8")
        with (folder / "fill").open("wb", buffering=0) as fill, pytest.raises(OSError, match="No space"):
            while True:
                fill.write(bytes(4096))
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_named_and_left_as_it_was(tmp_path: Path) -> None:
    with full_disk(tmp_path / "disk") as disk:
        with pytest.raises(OutputError, match="No space left on device"):
            write_files([(disk / "a.json", lambda out: out.write("x" * 100_000) and None)], False)
        assert sorted(p.name for p in disk.iterdir()) == ["fill", "train.py"]


@pytest.mark.parametrize("name", ["full", "null", "pipe"])
def test_a_device_is_never_replaced(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    device = tmp_path / "pipe" if name == "pipe" else Path("/dev") / name
    with pytest.raises(OutputError, match="exists and is no file"):
        write_files([(device, lambda out: out.write("x") and None)], True)
    assert device.exists()
    assert not device.is_file()


class _Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text either")


@pytest.mark.parametrize("error", [KeyError(10**5000), _Unprintable(), ValueError("\x1b[2J"), OSError(5, None)])
@pytest.mark.parametrize("home", ["/dev/null/x", "\0", ""])
def test_the_report_of_a_bug_does_not_fail(
    error: Exception, home: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    if home != "\0":
        monkeypatch.setenv("XDG_STATE_HOME", home or str(tmp_path))
    else:
        monkeypatch.setattr(Path, "home", lambda: Path("\0"))
        monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setattr(sys, "argv", ["tcprobe", "\udcff"])
    assert report_bug(error) == 3
    said = capsys.readouterr().err
    assert said.startswith(f"tcprobe: internal error: {type(error).__module__}".replace("builtins", ""))
    assert "\x1b" not in said
    assert (tmp_path / "tcprobe" / "last-error.log").exists() == (not home)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MemoryError(), "not enough memory"),
        (OSError(errno.EMFILE, "Too many open files", "a.pb"), "a.pb: the system refused: Too many open files"),
        (OSError(errno.ENAMETOOLONG, "File name too long", "a.pb"), "a.pb: the system refused: File name too long"),
        (FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']"), "No usable temporary"),
        (ImportError("libcuda.so: no memory", name="numpy"), "numpy cannot be imported: libcuda.so: no memory"),
        (ImportError("cannot import name", name="tcprobe.cli"), None),
        (FileNotFoundError(errno.ENOENT, "No such file", "ours.json"), None),
        (ValueError(), None),
    ],
)
def test_which_exceptions_are_no_bugs(error: Exception, said: str | None) -> None:
    found = not_ours(error)
    assert (found is None) == (said is None)
    assert said is None or (isinstance(found, TcprobeError) and said in found.message and found.hint)


def test_an_error_of_the_system_without_words_is_told() -> None:
    assert cannot_write("a", OSError("out of luck")).message == "a: cannot be written: out of luck"
