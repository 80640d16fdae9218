"""A unit is whole or not there, whatever ends the process; what was cut off lies apart."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.gpu import day
from bench.gpu.day import Clock, Day, NotRecorded, OutOfTime, Unit, status_of
from tests.bench.gpu.driver import NOTHING
from tests.support import ROOT

Said = list[str]


def day_of(folder: Path) -> tuple[Day, Said]:
    said: Said = []
    return Day(folder, NOTHING, True, said.append), said


def write(place: Path, _: float) -> None:
    (place / "table.csv").write_text("1\n", encoding="utf-8")


def test_a_unit_gets_its_place_when_it_is_whole(tmp_path: Path) -> None:
    here, said = day_of(tmp_path)

    def record(place: Path, seconds: float) -> None:
        assert place.name.startswith(".") and not (tmp_path / "part" / "unit").exists() and 0 < seconds <= 50
        (place / day.LOG).write_text("/home/somebody", encoding="utf-8")
        write(place, seconds)

    assert here.do("part", Unit("unit", record, most_s=50, about={"framework": "jax"}), Clock(60)) == "done"
    assert sorted(p.name for p in (tmp_path / "part" / "unit").iterdir()) == ["table.csv", "unit.json"]
    told = json.loads((tmp_path / "part/unit/unit.json").read_text(encoding="utf-8"))
    assert (told["status"], told["reason"], told["framework"]) == ("done", None, "jax")
    assert here.do("part", Unit("unit", pytest.fail), Clock(60)) == "done"  # type: ignore[arg-type]
    assert said == ["part: unit: 0 s", "part: unit is there already"]


def test_what_cannot_be_recorded_says_why_and_is_tried_again(tmp_path: Path) -> None:
    here, said = day_of(tmp_path)

    def refuse(place: Path, seconds: float) -> None:
        (place / day.LOG).write_text("/home/somebody", encoding="utf-8")
        raise NotRecorded("/scratch/a/tool: no permission", "ask for it")

    assert here.do("part", Unit("unit", refuse), Clock(60)) == "failed"
    told = json.loads((tmp_path / "part/unit/unit.json").read_text(encoding="utf-8"))
    assert (told["status"], told["reason"], told["remedy"]) == ("failed", "tool: no permission", "ask for it")
    assert said == ["part: unit: failed: tool: no permission (ask for it)"]
    assert [p.name for p in (tmp_path / "part" / "unit").iterdir()] == ["unit.json"]
    assert (tmp_path / "killed" / "part-unit-1" / day.LOG).exists()
    assert here.do("part", Unit("unit", write), Clock(60)) == "done"
    assert status_of(tmp_path / "part" / "unit") == "done"


def test_what_the_clock_cuts_off_lies_apart(tmp_path: Path) -> None:
    here, said = day_of(tmp_path)

    def late(place: Path, seconds: float) -> None:
        write(place, seconds)
        raise OutOfTime

    for number in (1, 2):
        assert here.do("part", Unit("unit", late), Clock(60)) == "out of time"
        assert (tmp_path / "killed" / f"part-unit-{number}" / "table.csv").exists()
    assert [p.name for p in (tmp_path / "part" / "unit").iterdir()] == ["unit.json"]
    late_one = Unit("unit", pytest.fail, least_s=10)  # type: ignore[arg-type]
    assert here.do("part", late_one, Clock(2)) == "not begun" and status_of(tmp_path / "part" / "unit") == "out of time"
    assert here.do("other", late_one, Clock(2)) == "not begun" and len(said) == 2
    told = json.loads((tmp_path / "other/unit/unit.json").read_text(encoding="utf-8"))
    assert (told["status"], told["reason"]) == ("not begun", "2 s were left, and it takes 10 s or more")


def test_a_fault_in_one_unit_costs_no_other(tmp_path: Path) -> None:
    here, said = day_of(tmp_path)

    def fault(place: Path, seconds: float) -> None:
        write(place, seconds)
        raise KeyError(f"{Path.home()}/secret/file")

    assert here.do("part", Unit("unit", fault), Clock(60)) == "failed"
    (words,) = said
    assert words.startswith("part: unit: failed: a fault of the recorder's: KeyError: '~/secret/file' (see killed/part")
    assert f"KeyError: '{Path.home()}/secret/file'" in (tmp_path / "killed/part-unit-1" / day.LOG).read_text(
        encoding="utf-8"
    )
    assert [p.name for p in (tmp_path / "part" / "unit").iterdir()] == ["unit.json"]
    assert here.do("part", Unit("unit", write), Clock(60)) == "done"


def test_a_full_disk_ends_the_part(tmp_path: Path) -> None:
    def full(place: Path, seconds: float) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        day_of(tmp_path)[0].do("part", Unit("unit", full), Clock(60))


def drive(folder: Path, moment: int) -> int:
    command = [sys.executable, "-m", "tests.bench.gpu.driver", str(folder), str(moment)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, timeout=60, check=False).returncode


def content(folder: Path) -> dict[str, str]:
    """Return the files of all units, without how long they took."""
    found = {
        str(p.relative_to(folder)): p.read_text(encoding="utf-8") for p in sorted(folder.rglob("*.*")) if p.is_file()
    }
    return {name: text for name, text in found.items() if not name.endswith("unit.json") and "killed" not in name}


@pytest.mark.parametrize("moment", [1, 2, 4, 5, 6, 10, 15])
def test_killed_at_any_moment_the_next_call_goes_on(tmp_path: Path, moment: int) -> None:
    assert drive(tmp_path, moment) == -signal.SIGKILL
    whole = [p.parent.name for p in tmp_path.glob("part/*/unit.json") if not p.parent.name.startswith(".")]
    assert whole == [name for name in ("one", "two", "three") if name in whole]
    for name in whole:
        assert sorted(p.name for p in (tmp_path / "part" / name).iterdir()) == ["0.txt", "1.txt", "unit.json"]
    assert drive(tmp_path, 0) == 0
    assert content(tmp_path) == {f"part/{n}/{p}.txt": n for n in ("one", "three", "two") for p in (0, 1)}
    assert not list(tmp_path.glob("part/.*"))


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[tuple[list[str], Path]]:
    """Provide a command that starts a process of its own, writes the number of that, and waits."""
    told = tmp_path / "number"
    code = (
        "import subprocess, sys, time, pathlib;"
        "p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']);"
        f"t = pathlib.Path({str(told)!r});"
        "t.with_suffix('.new').write_text(str(p.pid)); t.with_suffix('.new').rename(t);"
        "time.sleep(60)"
    )
    yield [sys.executable, "-c", code], told


def gone(number: int) -> bool:
    """Wait for a process to be gone, at most 10 s."""
    for _ in range(200):
        try:
            state = Path(f"/proc/{number}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


def test_a_program_that_takes_too_long_ends_with_all_that_it_started(waiting: tuple[list[str], Path]) -> None:
    command, told = waiting
    with pytest.raises(OutOfTime):
        day.run(command, 1.5)
    assert gone(int(told.read_text(encoding="utf-8")))


def test_a_program_does_not_outlive_who_asked_for_it(waiting: tuple[list[str], Path]) -> None:
    command, told = waiting
    code = f"from bench.gpu.day import run; run({command!r}, 60)"
    asked = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT)
    for _ in range(200):
        if told.exists():
            break
        time.sleep(0.05)
    os.kill(asked.pid, signal.SIGKILL)
    asked.wait(10)
    assert gone(int(told.read_text(encoding="utf-8")))


def test_the_status_is_the_programs_own_and_its_last_words_are_kept(tmp_path: Path) -> None:
    log = tmp_path / "log"
    code = "import sys, pathlib; print('begun'); print(pathlib.Path.home() / 'x', file=sys.stderr); sys.exit(7)"
    assert day.run([sys.executable, "-c", code], 30, log=log) == 7
    assert day.said(log) == "~/x"
    assert day.run([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"], 30, log=log) == 137
    assert day.run(["/nowhere/program"], 30, log=log) == 127
    assert day.said(log) == "program: No such file or directory"
