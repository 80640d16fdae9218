"""The disk or the run folder fails while a workload runs: it goes on, what was written is kept, the cause is said."""

from __future__ import annotations

import ctypes
import json
import os
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.faults.kept import check_kept, left
from tests.faults.running import STEPS, Tcprobe
from tests.faults.table import Fault, cases

MIB = 2**20
STRIKE = """
import os, sys, time
time.sleep(1.2)  # until all is flushed
{strike}
for step in range(10, 13):
    with tcprobe.step():
        time.sleep(0.01)
    print("loss: 0.5", flush=True)
{end}
"""
FILL = """
with open("disk/filler", "wb", buffering=0) as file:
    for size in (65536, 512):
        try:
            while True:
                file.write(bytes(size))
        except OSError:
            pass
"""
EXIT = "sys.exit(7)"


def struck(strike: str, end: str = EXIT) -> str:
    """Return a workload of ten steps, what befalls it, three more steps and its end."""
    return STEPS.format(steps=10, seconds=0.01) + STRIKE.format(strike=strike, end=end)


@contextmanager
def small_disk(place: Path, options: str) -> Iterator[Path]:
    """Mount a file system in memory."""
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


DISKS = {
    "disk-full": (FILL, "the workload failed with exit code 7"),
    "read-only": ("os.system('mount -o remount,ro disk')", "Read-only file system"),
}


@pytest.mark.parametrize("fault", cases("test_storage.test_a_disk_that_takes_no_more"))
def test_a_disk_that_takes_no_more(fault: Fault, tmp_path: Path) -> None:
    strike, said = DISKS[fault.name]
    with small_disk(tmp_path / "disk", f"size={70 * MIB}") as disk:
        run = Tcprobe(tmp_path, struck(strike), "--output", str(disk / "run"))
        assert run.wait() == 7
        assert said in run.printed
        (home,) = (path for path in disk.iterdir() if path.is_dir())
        check_kept(left(home), fault.kept, 13 if fault.name == "disk-full" else 10)


@pytest.mark.parametrize("fault", cases("test_storage.test_a_disk_without_room_for_the_record"))
def test_a_disk_without_room_for_the_record(fault: Fault, tmp_path: Path) -> None:
    strike = "os.remove(__import__('glob').glob('disk/.partial-*/.reserve')[0])\n" + FILL
    with small_disk(tmp_path / "disk", f"size={70 * MIB}") as disk:
        run = Tcprobe(tmp_path, struck(strike), "--output", str(disk / "run"))
        assert run.wait() == 7
        assert "run.json: cannot be written: No space left on device\nhint: " in run.printed
        assert "next: " not in run.printed
        assert fault.kept.value == "all until then"
        assert len(left(disk / "run").steps) >= 10


def drop_capabilities() -> None:
    """Let permissions count for root too, also in what it starts; an ordinary user has none to drop."""
    libc = ctypes.CDLL(None, use_errno=True)
    if os.geteuid() == 0:
        no_root = 1
        assert libc.prctl(28, no_root, 0, 0, 0) == 0  # PR_SET_SECUREBITS
        assert libc.capset((ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()) == 0


@pytest.mark.parametrize("fault", cases("test_storage.test_a_permission_that_is_lost"))
def test_a_permission_that_is_lost(fault: Fault, tmp_path: Path) -> None:
    strike = "for path, _, _ in list(os.walk('tcprobe-runs')): os.chmod(path, 0o500)"
    run = Tcprobe(tmp_path, struck(strike), before=drop_capabilities)
    code = run.wait()
    for path, _, _ in os.walk(tmp_path / "tcprobe-runs"):
        Path(path).chmod(0o700)
    assert code == 7, run.printed
    assert "Permission denied" in run.printed
    check_kept(left(run.folder()), fault.kept, 10)


@pytest.mark.parametrize("fault", cases("test_storage.test_files_that_may_only_be_small"))
def test_files_that_may_only_be_small(fault: Fault, tmp_path: Path) -> None:
    limit = 50_000

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    run = Tcprobe(tmp_path, STEPS.format(steps=1, seconds=2) + MANY, before=limited)
    assert run.wait() in (0, 2)
    found = left(run.folder())
    assert fault.kept.value == "all until then"
    assert len(found.steps) >= 1
    assert "not recorded: steps.csv: File too large" in found.said["probe-gap"]
    assert "File too large" in run.printed
    assert found.record["exit_code"] == 0


MANY = """
for step in range(6000):
    with tcprobe.step():
        pass
"""


@pytest.mark.parametrize("fault", cases("test_storage.test_a_disk_without_inodes"))
def test_a_disk_without_inodes(fault: Fault, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", f"size={70 * MIB},nr_inodes=20") as disk:
        run = Tcprobe(tmp_path, "print('started')", "--output", str(disk / "run"))
        assert run.wait() == 2
        assert "cannot be written: No space left on device" in run.printed
        assert "df -i" in run.printed
        assert "started" not in run.printed
        assert fault.kept.value.startswith("nothing")
        assert list(disk.iterdir()) == []


TAKEN = "(home,) = __import__('glob').glob('tcprobe-runs/.partial-*'); os.rename(home, 'moved')"
FOLDERS = {"folder-renamed": TAKEN, "folder-linked": f"{TAKEN}; os.symlink('../moved', home)"}


@pytest.mark.parametrize("fault", cases("test_storage.test_a_run_folder_that_is_taken_away"))
def test_a_run_folder_that_is_taken_away(fault: Fault, tmp_path: Path) -> None:
    renamed = fault.name == "folder-renamed"
    run = Tcprobe(tmp_path, struck(FOLDERS[fault.name] + ("; os.kill(os.getpid(), 9)" if renamed else "")))
    assert run.wait() == (137 if renamed else 7)
    if renamed:
        assert "is gone: it was removed or renamed while the workload ran" in run.printed
        assert "run folder kept" not in run.printed
        assert "next: " not in run.printed
        assert len(left(tmp_path / "moved").steps) == 10
    else:
        assert run.folder().is_symlink()
        check_kept(left(run.folder()), fault.kept, 13)


@pytest.mark.parametrize("fault", cases("test_storage.test_two_at_once"))
def test_two_at_once(fault: Fault, tmp_path: Path) -> None:
    runs = []
    for number in ("1", "2"):
        (tmp_path / number).mkdir()
        options = ("--output", str(tmp_path / "run"), "--force")
        runs.append(Tcprobe(tmp_path / number, STEPS.format(steps=10, seconds=0.01) + "time.sleep(1)", *options))
    assert [run.wait() for run in runs] == [0, 0]
    assert fault.kept.value == "everything of each"
    for name in ("run", "run-2"):
        assert len(left(tmp_path / name).steps) == 10
        assert any(f"next: tcprobe report {tmp_path / name}\n" in run.printed for run in runs)


@pytest.mark.parametrize("fault", cases("test_storage.test_several_processes_in_one_run"))
def test_several_processes_in_one_run(fault: Fault, tmp_path: Path) -> None:
    launcher = 'sh -c \'"$@" & "$@" & "$@"; wait\' sh'
    run = Tcprobe(tmp_path, STEPS.format(steps=10, seconds=0.1), "--launcher", launcher)
    assert run.wait() == 0
    found = left(run.folder())
    assert len(found.steps) == len(found.metrics) == 10
    assert found.said["several-processes"].startswith("2 more processes ran beside the first one")
    check_kept(found, fault.kept, 10)


@pytest.mark.parametrize("fault", cases("test_storage.test_a_run_that_recorded_nothing"))
def test_a_run_that_recorded_nothing(fault: Fault, tmp_path: Path) -> None:
    run = Tcprobe(tmp_path, "print('hello')")
    assert run.wait() == 0
    assert f"tcprobe: run folder kept: {run.folder().relative_to(tmp_path)}" in run.printed.splitlines()
    assert "next: " not in run.printed
    check_kept(left(run.folder()), fault.kept, 0)


@pytest.mark.parametrize("fault", cases("test_storage.test_a_flood_of_output"))
def test_a_flood_of_output(fault: Fault, tmp_path: Path) -> None:
    flood = "for number in range(50_000): print('line', number, 'x' * 80)\n"
    run = Tcprobe(tmp_path, STEPS.format(steps=10, seconds=0.01) + flood)
    assert run.wait() == 0
    lines = [line for line in run.printed.splitlines() if line.startswith("line ")]
    assert lines == [f"line {number} {'x' * 80}" for number in range(50_000)]
    notes = json.loads((run.folder() / "run.json").read_text())["notes"]
    assert "flood" in {note["code"] for note in notes}
    check_kept(left(run.folder()), fault.kept, 10)
