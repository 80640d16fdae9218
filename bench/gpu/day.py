"""A day of measuring: a folder of results that grows by units, each whole or not there, on a clock.

A unit is what one program records in one go. It grows in a folder of its own, under a hidden name, and gets its place
when it is whole: `DIR/PART/UNIT/`, with `unit.json` beside what it recorded. What a kill or the clock cut off, and what
a failing program left, is moved to `DIR/killed/`, apart from results, and measured anew by the next run, which passes
over what is done.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final, Literal, Protocol

from bench.gpu.guard import session
from bench.gpu.machine import Machine
from bench.gpu.private import without_paths
from tcprobe.bypath import last_line
from tcprobe.calibration.start import CPU_ONLY
from tcprobe.capture.environment import visible_devices
from tcprobe.errors import WHAT_HELPS

Status = Literal["done", "failed", "out of time", "not begun"]
GUARD: Final = Path(__file__).with_name("guard.py")
ROOT: Final = Path(__file__).parents[2]
LEAST_S: Final = 1.0
LOOK_S: Final = 0.05
GRACE_S: Final = 2.0  # between asking a process to end and ending it
LOG: Final = "program.log"
"""In a unit's folder: what its programs printed. It names paths of the machine, so it stays in `killed/` alone."""


class NotRecorded(Exception):
    """A unit cannot be recorded here.

    Args:
        reason: what was found and what was expected, in one line.
        remedy: what to do about it; None if nothing.
    """

    def __init__(self, reason: str, remedy: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.remedy = remedy


class OutOfTime(Exception):
    """The clock ran out before a unit was whole."""


class Clock:
    """So many seconds from now on."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        """Return the seconds that are left, at least 0."""
        return max(0.0, self._end - time.monotonic())


@dataclass(frozen=True, slots=True)
class Unit:
    """What one program records.

    Attributes:
        name: its folder's name, of [a-z0-9.-]; the same in every run of the same plan.
        record: records into a folder within so many seconds; raises `NotRecorded`, or `OutOfTime`.
        most_s: the longest it may take.
        least_s: with less time left it is not begun.
        about: what `unit.json` says of it besides (framework, version).
    """

    name: str
    record: Callable[[Path, float], None]
    most_s: float = 600.0
    least_s: float = 5.0
    about: Mapping[str, Any] = field(default_factory=dict)


class Part(Protocol):
    """A module that records one kind of truth.

    Attributes:
        NAME: its folder's name.
        WHAT: what it records, in a few words.
        SHARE: of the time, against the shares of the parts that are left.
    """

    NAME: str
    WHAT: str
    SHARE: float

    def units(self, day: Day) -> Iterable[Unit]:
        """Yield what to record on this machine, most valuable first; what cannot be recorded raises when recorded."""
        ...


@dataclass(frozen=True, slots=True)
class Day:
    """The results of a day.

    Attributes:
        folder: of the results.
        machine: what it has.
        dry: rehearsed on the CPU: small sizes, a fake Nsight Compute.
        say: tells how it goes.
    """

    folder: Path
    machine: Machine
    dry: bool
    say: Callable[[str], None]

    def do(self, part: str, unit: Unit, clock: Clock) -> Status:
        """Record a unit unless it is there already, and return how it went."""
        place, begun = self.folder / part / unit.name, self.folder / part / f".{unit.name}"
        if status_of(place) == "done":
            self.say(f"{part}: {unit.name} is there already")
            return "done"
        if begun.exists():
            self._keep_apart(part, unit.name, begun)
        seconds = min(unit.most_s, clock.left())
        ended: tuple[Status, str | None, str | None]
        if seconds < unit.least_s:
            ended = ("not begun", f"{seconds:.0f} s were left, and it takes {unit.least_s:.0f} s or more", None)
            return self._end(part, unit, begun, place, ended, 0.0) if not place.exists() else "not begun"
        begun.mkdir(parents=True)
        started = time.monotonic()
        try:
            unit.record(begun, seconds)
            ended = ("done", None, None)
            (begun / LOG).unlink(missing_ok=True)
        except NotRecorded as error:
            if any(begun.iterdir()):
                self._keep_apart(part, unit.name, begun)
            ended = ("failed", error.reason, error.remedy)
        except OutOfTime:
            self._keep_apart(part, unit.name, begun)
            ended = ("out of time", f"it was not whole after {seconds:.0f} s", None)
        except Exception as error:
            if isinstance(error, OSError) and error.errno in WHAT_HELPS:
                raise  # a full disk costs them all
            with (begun / LOG).open("a", encoding="utf-8") as log:
                traceback.print_exc(file=log)
            apart = self._keep_apart(part, unit.name, begun)
            reason = f"a fault of the recorder's: {type(error).__name__}: {error}".splitlines()[0]
            ended = ("failed", reason, f"see killed/{apart}/{LOG}")
        return self._end(part, unit, begun, place, ended, time.monotonic() - started)

    def _end(
        self, part: str, unit: Unit, begun: Path, place: Path, ended: tuple[Status, str | None, str | None], took: float
    ) -> Status:
        status, reason, remedy = ended
        reason = without_paths(reason) if reason else None  # what programs say goes among the results
        begun.mkdir(parents=True, exist_ok=True)
        record = {"status": status, "reason": reason, "remedy": remedy, "seconds": round(took, 1), **unit.about}
        (begun / "unit.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        if place.exists():
            shutil.rmtree(place)
        begun.rename(place)
        words = f"{took:.0f} s" if status == "done" else f"{status}: {reason}" + (f" ({remedy})" if remedy else "")
        if status != "not begun":
            self.say(f"{part}: {unit.name}: {words}")
        return status

    def _keep_apart(self, part: str, name: str, begun: Path) -> str:
        """Move what is no result to `killed/`, and return its name there."""
        killed = self.folder / "killed"
        killed.mkdir(exist_ok=True)
        apart = f"{part}-{name}-{1 + sum(1 for _ in killed.glob(f'{part}-{name}-[0-9]*'))}"
        begun.rename(killed / apart)
        return apart


def one_device(dry: bool) -> dict[str, str]:
    """Return the variables that show a framework the first visible GPU alone, or none on a dry run."""
    return CPU_ONLY if dry else {"CUDA_VISIBLE_DEVICES": visible_devices(None, os.environ.get("CUDA_VISIBLE_DEVICES"))}


def status_of(place: Path) -> Status | None:
    """Return how a unit ended; None where it is not there."""
    try:
        status: Status = json.loads((place / "unit.json").read_text(encoding="utf-8"))["status"]
    except (OSError, ValueError, KeyError):
        return None
    return status


def run(
    command: Sequence[str],
    seconds: float,
    *,
    log: Path | None = None,
    out: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> int:
    """Run a command without input for at most so many seconds; on return all that it started has ended.

    Args:
        command: the command line.
        seconds: the longest it may take.
        log: a file to append what it prints to; None leaves it on standard error.
        out: a file for its standard output; None puts that where `log` says.
        environment: variables set besides this process's own.

    Returns:
        Its exit status, 128 and the signal where one ended it.

    Raises:
        OutOfTime: it was ended because the time was up.
    """
    with ExitStack() as files:
        told = files.enter_context(log.open("ab")) if log is not None else None
        printed = files.enter_context(out.open("wb")) if out is not None else told
        process = files.enter_context(_running(command, printed or sys.stderr, told, environment or {}))
        try:
            return process.wait(max(seconds, LEAST_S))
        except subprocess.TimeoutExpired:
            raise OutOfTime from None


@contextmanager
def beside(command: Sequence[str], out: Path) -> Iterator[None]:
    """Run a command without input while the body runs; its output goes to `out`, and then it has ended."""
    with out.open("wb") as printed, _running(command, printed, subprocess.DEVNULL, {}):
        yield


@contextmanager
def _running(
    command: Sequence[str], out: IO[Any], told: IO[Any] | int | None, environment: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a command that does not outlive this process; at the end all that it started has ended."""
    process = subprocess.Popen(
        [sys.executable, str(GUARD), str(os.getpid()), *command],
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=told,
        env={**os.environ, **environment},
        cwd=ROOT,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ask all processes of a session to end, then end them; what it starts may have a group or session of its own."""
    sessions = {process.pid}
    for number in (signal.SIGTERM, signal.SIGKILL):
        for member in session(*sessions):
            with suppress(ProcessLookupError):
                sessions.add(os.getsid(member))
                os.kill(member, number)
        patience = Clock(GRACE_S)
        while session(*sessions) and patience.left():
            time.sleep(LOOK_S)
    process.poll()


def said(log: Path) -> str:
    """Return the last line of a log, without paths of the machine; empty if there is none."""
    return without_paths(last_line(log))
