"""Try inputs in a child process under limits of time and memory, and find the one that a child dies of."""

from __future__ import annotations

import gc
import json
import mmap
import os
import resource
import shutil
import signal
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any, Final

from tests.fuzz import door, oracle
from tests.fuzz.inputs import Input
from tests.fuzz.targets import Target
from tests.fuzz.watch import Watch

BATCH: Final = 1000
"""Inputs that a child tries: caches that hold names grow with each."""
LOOK: Final = 0.2
"""Seconds between two looks at a child."""
TWICE: Final = 40
"""One of so many inputs is tried twice: the bytes must be the same."""


@dataclass(frozen=True)
class Limits:
    """What an input may take.

    Attributes:
        cpu_s: CPU seconds.
        memory: bytes of address space of the process that tries it.
        wait_s: seconds on the clock that the process may sleep.
    """

    cpu_s: float = 10.0
    memory: int = 2 << 30
    wait_s: float = 10.0


LIMITS: Final = Limits()


@dataclass(frozen=True)
class Finding:
    """One input that broke something: where it came from, the class of what broke, and a detail."""

    key: str
    kind: str
    detail: str


@dataclass
class Tally:
    """What a series of inputs gave."""

    inputs: int = 0
    seconds: float = 0.0
    slowest_s: float = 0.0
    slowest: str = ""
    peak_bytes: int = 0
    findings: list[Finding] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Add what another series gave."""
        self.inputs += other.inputs
        self.seconds += other.seconds
        self.peak_bytes = max(self.peak_bytes, other.peak_bytes)
        if other.slowest_s > self.slowest_s:
            self.slowest_s, self.slowest = other.slowest_s, other.slowest
        self.findings += other.findings


class TooSlow(BaseException):
    """The time of an input is over."""


def scratch(within: Path | None = None) -> Path:
    """Return a new folder, in memory where the system has such a place, or within another one."""
    memory = within or Path("/dev/shm")
    return Path(tempfile.mkdtemp(prefix="tcprobe-fuzz-", dir=memory if os.access(memory, os.W_OK) else None))


class Trial:
    """Tries inputs in this process, which is changed for good: begin one only in a child."""

    def __init__(self, target: Target, home: Path, limits: Limits) -> None:
        self.target, self.limits = target, limits
        self.folder = home / "input"
        self.forbidden: list[str] = []
        self._watch = Watch()
        self._allowed = (f"{home}/state/", f"{self.folder}/config")
        os.environ.update(XDG_CONFIG_HOME=str(self.folder / "config"), XDG_STATE_HOME=str(home / "state"), COLUMNS="80")
        for name in [n for n in os.environ if n.startswith("TCPROBE_")]:
            del os.environ[name]
        os.chdir(home)
        resource.setrlimit(resource.RLIMIT_AS, (limits.memory, limits.memory))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(signal.SIGPROF, _too_slow)
        door.prepare()
        gc.freeze()

    def problems(self, made: Input) -> list[tuple[str, str]]:
        """Return what is wrong with an input, as classes and details."""
        first = self._once(made)
        found = [p for said, call in first for p in oracle.problems(call, said, str(self.folder), _plain(made))]
        found += [(f"watched: {what}", "") for what in dict.fromkeys(self.forbidden)]
        if made.digest_number % TWICE == 0:
            again = self._once(made)
            found += [
                (f"{a.format}: differs the second time", "")
                for (x, a), (y, _) in zip(first, again, strict=True)
                if _out(x) != _out(y)
            ]
        return found

    def _once(self, made: Input) -> list[tuple[door.Said, door.Call]]:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.target.place(made, self.folder)
        door.forget()
        self.forbidden = []
        before = _state(self.folder)
        self._limit()
        try:
            said = [(self._call(call), call) for call in self.target.calls(made, self.folder)]
        finally:
            self.forbidden += self._watch.stop()
            signal.setitimer(signal.ITIMER_PROF, 0)
        config = self.folder / "config"
        if any(config not in (path, *path.parents) for path, _ in before ^ _state(self.folder)):
            self.forbidden.append("the folder holds other files")
        return said

    def _call(self, call: door.Call) -> door.Said:
        """Make a call under watch; one that fixes a file may write that file, by way of a hidden one beside it."""
        files = [Path(word) for word in call.arguments if "--fix" in call.arguments and word.endswith(".py")]
        fixed = [text for file in files for text in (str(file), f"{file.parent}/.{file.name}.")]
        self._watch.start(self.folder, (*self._allowed, *fixed))
        said = self.target.door(*call.arguments)
        self.forbidden += self._watch.stop()
        return said

    def _limit(self) -> None:
        """Let the next input use so much time and no more: Python code ends with `TooSlow`, other code is killed."""
        used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
        resource.setrlimit(resource.RLIMIT_CPU, (int(used + self.limits.cpu_s) + 2, resource.RLIM_INFINITY))
        signal.setitimer(signal.ITIMER_PROF, self.limits.cpu_s)


def _state(folder: Path) -> set[tuple[Path, int]]:
    """Return what lies below a folder, files with the time of their last change; `--fix` changes Python files."""
    return {
        (path, path.lstat().st_mtime_ns if path.suffix not in ("", ".py", ".ipynb") else 0)
        for path in folder.rglob("*")
    }


def _too_slow(number: int, frame: FrameType | None) -> None:
    raise TooSlow


def _out(said: door.Said) -> tuple[int, bytes]:
    return said.code, said.out


def _plain(made: Input) -> bool:
    """Say whether no file of an input holds a word for NaN or infinity, or a number that could become one."""
    return not any(
        word in content.lower() for content in made.files.values() for word in (b"nan", b"inf", b"999", b"e30")
    )


Source = Callable[[int], tuple[str, Input]]
"""Gives the input of a number, with a key that tells a person how to get it again."""


def run(target: Target, source: Source, numbers: Iterable[int], until: float, limits: Limits = LIMITS) -> Tally:
    """Try the inputs of some numbers until a time on the clock; what a child dies of becomes a finding."""
    left, tally = iter(numbers), Tally()
    home = scratch()
    board = mmap.mmap(-1, 8)
    try:
        while time.time() < until and (batch := _some(left)):
            while batch and time.time() < until:
                made, done = _in_child(target, source, batch, until, home, board, limits)
                tally.add(made)
                batch = batch[done:]
    finally:
        shutil.rmtree(home, ignore_errors=True)
    return tally


def _some(left: Iterator[int]) -> list[int]:
    return list(islice(left, BATCH))


def _in_child(
    target: Target, source: Source, batch: list[int], until: float, home: Path, board: mmap.mmap, limits: Limits
) -> tuple[Tally, int]:
    """Try a batch in a child; return what it gave and how many inputs are done with, a deadly one included."""
    reads, writes = os.pipe()
    board[:] = struct.pack("q", -1)
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        os.close(reads)
        with os.fdopen(writes, "w", encoding="utf-8") as out:
            _child(target, source, batch, until, home, board, limits, out)
    os.close(writes)
    stop = watched(child, board, limits.wait_s)
    with os.fdopen(reads, encoding="utf-8", errors="replace") as answers:
        tally = told(answers)
    _, status = os.waitpid(child, 0)
    waited = stop()
    (at,) = struct.unpack("q", board[:])
    if status == 0:
        return tally, at + 1
    key, _ = source(batch[at])
    kind = "waits for something" if waited else ending(status)
    tally.findings.append(Finding(key, kind, ""))
    tally.inputs = at + 1
    return tally, at + 1


def ending(status: int) -> str:
    """Return the class of what a child died of."""
    if not os.WIFSIGNALED(status):
        return f"killed: exit {os.WEXITSTATUS(status)}"
    name = signal.Signals(os.WTERMSIG(status)).name
    return "too slow, in code that is not Python's" if name == "SIGXCPU" else f"killed: {name}"


def watched(child: int, board: mmap.mmap, wait_s: float) -> Callable[[], bool]:
    """Kill a child that sleeps too long at one input, from a thread; return what ends it and says if that happened."""
    killed, ended = threading.Event(), threading.Event()

    def look() -> None:
        asleep, last = 0.0, -1
        while not ended.wait(LOOK):
            (at,) = struct.unpack("q", board[:8])
            asleep, last = asleep + LOOK if at == last and _sleeps(child) else 0.0, at
            if asleep > wait_s:
                killed.set()
                os.kill(child, signal.SIGKILL)
                return

    thread = threading.Thread(target=look, daemon=True)
    thread.start()

    def stop() -> bool:
        ended.set()
        thread.join()
        return killed.is_set()

    return stop


def _sleeps(child: int) -> bool:
    """Say whether a process waits for something; one that has ended does not."""
    try:
        return Path(f"/proc/{child}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] in "SD"
    except OSError:
        return False


def _child(
    target: Target,
    source: Source,
    batch: list[int],
    until: float,
    home: Path,
    board: mmap.mmap,
    limits: Limits,
    out: Any,
) -> None:
    """Try a batch, tell what is found line by line, and end the process."""
    code = 1
    try:
        trial, tally = Trial(target, home, limits), Tally()
        for at, number in enumerate(batch):
            board[:] = struct.pack("q", at)
            key, made = source(number)
            began = time.process_time()
            for kind, detail in tried(trial, made):
                print(json.dumps([key, kind, detail]), file=out, flush=True)
            taken = time.process_time() - began
            tally.add(Tally(1, taken, taken, key))
            if time.time() > until:
                break
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(json.dumps([tally.inputs, tally.seconds, tally.slowest_s, tally.slowest, peak]), file=out, flush=True)
        code = 0
    except BaseException:  # noqa: BLE001 - whatever it is, the parent has to hear of it and the child to end
        import traceback

        traceback.print_exc()
    finally:
        with suppress(OSError):
            out.flush()
        os._exit(code)


def tried(trial: Trial, made: Input) -> list[tuple[str, str]]:
    """Return what is wrong with an input, its time and its memory included."""
    try:
        return trial.problems(made)
    except TooSlow as slow:
        return [(f"too slow at {door.where(slow)}", f"{trial.limits.cpu_s} CPU seconds")]
    except MemoryError as error:
        return [(f"memory at {door.where(error)}", "")]


def told(answers: Iterable[str]) -> Tally:
    """Return what a child told; of one that died all but the sum."""
    tally = Tally()
    for line in answers:
        values = json.loads(line)
        if len(values) == 3:
            tally.findings.append(Finding(*values))
        else:
            tally.inputs, tally.seconds, tally.slowest_s, tally.slowest, tally.peak_bytes = values
    return tally
