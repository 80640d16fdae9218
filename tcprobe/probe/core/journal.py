"""Writes what the probe sees: steps.csv, metrics.csv and calls.bin as they come, probe.json as things become known.

A daemon thread flushes twice a second, so that a killed process loses less than the last second. What cannot be written
(the folder was removed, the disk is full for a while) is written later; rows that a file has are not written again.

calls.bin holds every call that trains: which, when, in which thread, and how many steps it made. The file is a header
and records of 16 bytes, all little-endian: the start of a call in ns since the start of the workload; then 24 bits for
its key, 8 for its thread and 32 for its steps. A record of TAKEN_BACK steps is no call: it says that the latest call
before it was none. Nor is one of HANDED_OVER steps: the thread that its key names trains in place of its own thread.
"""

from __future__ import annotations

import bisect
import contextlib
import csv
import io
import itertools
import json
import os
import struct
import threading
import time
from array import array
from itertools import chain
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

from ..constants import CALL_BYTES, CALLS_MAGIC, CALLS_VERSION, HANDED_OVER, MOST_CALLS, TAKEN_BACK
from .gaps import Gaps

HEADER = struct.pack("<8sHHI", CALLS_MAGIC, CALLS_VERSION, CALL_BYTES, 0)
OTHERS = 255  # all threads from the 255th on


class CallLog:
    """The calls of a run: those that are not in the file yet, and how many there are.

    Args:
        path: of the file.

    Attributes:
        kept: calls in the file, or on their way there.
        lost: calls that came when it was full.
    """

    def __init__(self, path: str) -> None:
        self.kept = 0
        self.lost = 0
        self._path = path
        self._words = array("q", struct.unpack("<2q", HEADER))
        self._begun = False  # the file is there, unless somebody removed it
        self._threads: Dict[int, int] = {}

    def add(self, key: int, start: int, steps: int, thread: int = 0) -> None:
        """Add a call; `thread` is its identifier, 0 of the thread that trains."""
        if self.kept >= MOST_CALLS:
            self.lost += 1
            return
        if thread:
            key |= self._number(thread) << 24
        # In one call of a C function: what writes them sees all words of a record, or none.
        self._words.extend((start, key | steps << 32))
        self.kept += 1

    def add_all(self, keys: Sequence[int], starts: Sequence[int], steps: Sequence[int]) -> None:
        """Add some calls of the thread that trains."""
        room = min(MOST_CALLS - self.kept, len(keys))
        words = [key | each << 32 for key, each in zip(keys[:room], steps)]
        self._words.extend(array("q", chain.from_iterable(zip(starts, words))))
        self.kept += room
        self.lost += len(keys) - room

    def take_back(self, at: int) -> None:
        """Note that the latest call of the thread that trains was none."""
        self.add(0, at, TAKEN_BACK)

    def hand_over(self, thread: int, to: int, at: int) -> None:
        """Note that calls of the thread that trains, which were of one, are of another from now on."""
        self.add(self._number(to), at, HANDED_OVER, thread)

    def _number(self, thread: int) -> int:
        return min(self._threads.setdefault(thread, len(self._threads) + 1), OTHERS)

    def flush(self) -> None:
        """Write what came since the last time, all or nothing; a file that was removed meanwhile is not begun anew.

        Raises:
            OSError: it cannot be written.
        """
        words = self._words[:]
        if not words:
            return
        append(self._path, words.tobytes(), anew=not self._begun)
        self._begun = True
        del self._words[: len(words)]


def append(path: str, data: bytes, anew: bool = False) -> None:
    """Append to a file that is there, all or nothing; `anew`: begin it.

    Raises:
        OSError: it cannot be written.
    """
    file = os.open(path, os.O_WRONLY | os.O_APPEND | (os.O_CREAT | os.O_TRUNC if anew else 0), 0o600)
    try:
        size = os.fstat(file).st_size
        try:
            while data:
                data = data[os.write(file, data) :]
        except OSError:
            os.ftruncate(file, size)
            raise
    finally:
        os.close(file)


INTERVAL_SECONDS = 0.4
# After a failure, until the files are written anew: a long run's take a while.
RETRY_SECONDS = 5.0
# A thread that slept longer than it wanted, while the process did next to nothing, stood still with it.
STOOD_STILL_NS = 2 * 10**9
BUSY = 0.05
MOST_PAUSES = 1000
MOST_WAITING_METRICS = 100_000
Metric = Tuple[int, str, float, str]


class Written(NamedTuple):
    """Rows of steps.csv that have one kind."""

    first: int
    last: int
    kind: str


def write_atomically(path: str, text: str) -> None:
    """Write `text` to `path` so that a reader sees the old file or the new one, never a part; make its folder anew."""
    partial = "%s.%d.partial" % (path, os.getpid())
    try:
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        with open(partial, "w", encoding="utf-8", newline="", opener=_private) as file:
            file.write(text)
        os.replace(partial, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.remove(partial)
        raise


def _private(path: str, flags: int) -> int:
    """Open a file that only its owner may read, whatever the umask: Nsight Systems sets that to 0."""
    return os.open(path, flags, 0o600)


def _lines(rows: Any) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue()


def _step_lines(numbers: Sequence[int], starts: Sequence[int], kind: str) -> str:
    # One call for a block of rows takes a fifth of the time of a call for each.
    return ("%%d,%%d,%s\n" % kind * len(numbers)) % tuple(itertools.chain.from_iterable(zip(numbers, starts)))


def _joined(before: List[Written], blocks: List[Written]) -> List[Written]:
    """Return both, one after the other, of which two in the middle may be one kind."""
    if before and blocks and before[-1].kind == blocks[0].kind:
        return [*before[:-1], blocks[0]._replace(first=before[-1].first), *blocks[1:]]
    return before + blocks


class Journal:
    """The rows of a run, in memory and on disk.

    Args:
        folder: where the files go; it must exist.
        gaps: takes what fails.

    Attributes:
        numbers, starts: of the steps: number, and start in ns since the start of the workload.
        calls: those that train.
        kind: returns the kind of a row of steps.csv; rows of one kind lie side by side.
        summary: returns the content of probe.json.
        before_flush: called by the thread before it writes.
        clock: nanoseconds since the start of the workload.
        pauses: start and stop of each time that the whole process stood still (Ctrl-Z, a machine suspended).
    """

    def __init__(self, folder: str, gaps: Gaps) -> None:
        self.numbers = array("q")
        self.starts = array("q")
        self.calls = CallLog(os.path.join(folder, "calls.bin"))
        self.kind: Callable[[int], str] = lambda _: "measured"
        self.summary: Callable[[], Dict[str, Any]] = dict
        self.before_flush: Callable[[], None] = lambda: None
        self.clock: Callable[[], int] = time.perf_counter_ns
        self.pauses: List[Tuple[int, int]] = []
        self._folder = folder
        self._gaps = gaps
        self._lock = threading.Lock()
        self._written_steps: List[Written] = []  # as steps.csv has them
        self._rewrite = True
        self.names: Set[str] = set()  # of the figures
        self._metrics: List[Metric] = []
        self._metrics_begun = False
        self._written: Optional[str] = None
        self._failed: Dict[str, float] = {}  # hooks that could not write, and when
        self._stop = threading.Event()
        self._thread: Optional[threading.Thread] = None

    def row(self, number: int, start_ns: int) -> None:
        """Add a step."""
        self.starts.append(start_ns)
        self.numbers.append(number)

    def rows(self, numbers: Sequence[int], starts: Sequence[int]) -> None:
        """Add steps."""
        self.starts.extend(starts)
        self.numbers.extend(numbers)

    def truncate(self, rows: int) -> None:
        """Drop the steps from `rows` on; the file is rewritten."""
        with self._lock:
            del self.numbers[rows:], self.starts[rows:]
            self._rewrite = True

    def step_at(self, time_ns: int) -> int:
        """Return the number of the step that was running at `time_ns`; 0 before the first."""
        row = bisect.bisect_right(self.starts, time_ns) - 1
        return self.numbers[row] if row >= 0 else 0

    def metric(self, step: int, name: str, value: float, unit: str) -> None:
        """Add a figure that the script logged."""
        self.names.add(name)
        self._metrics.append((step, name, value, unit))

    def start(self) -> None:
        """Write the first files and start the thread."""
        self.flush()
        self._thread = threading.Thread(target=self._work, name="tcprobe-journal", daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Write everything for the last time, every kind as it turned out."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(5)
        if not os.path.exists(self._path("metrics.csv")):
            self._begin_metrics_anew()
        self._written = None
        self._rewrite = (
            self._rewrite
            or not os.path.exists(self._path("steps.csv"))
            or any(self.kind(row) != kind for first, last, kind in self._written_steps for row in (first, last))
        )
        self.flush()
        if self._failed:
            self.flush()

    def disable(self) -> None:
        """Write no more; for a forked child, where the thread is gone and the lock may be held."""
        self._stop.set()
        self.flush = lambda: None  # type: ignore[method-assign]

    def flush(self) -> None:
        """Bring the files up to date."""
        self._gaps.run("logged figures", self.before_flush)
        for hook, action in (
            ("steps.csv", self._flush_steps),
            ("calls.bin", self.calls.flush),
            ("metrics.csv", self._flush_metrics),
            ("probe.json", self._flush_summary),
        ):
            if self._stop.is_set() or time.monotonic() - self._failed.get(hook, -RETRY_SECONDS) >= RETRY_SECONDS:
                self._write(hook, action)

    def _write(self, hook: str, action: Callable[[], None]) -> None:
        if self._failed.pop(hook, None) is not None:
            self._gaps.close(hook)  # all that it missed is written now
        try:
            action()
        except Exception as error:
            self._failed[hook] = time.monotonic()
            self._gaps.add(hook, error)

    def _work(self) -> None:
        while True:
            began, busy = self.clock(), time.process_time_ns()
            if self._stop.wait(INTERVAL_SECONDS):
                return
            self._look_for_pause(began, self.clock(), time.process_time_ns() - busy)
            self.flush()

    def _look_for_pause(self, began: int, ended: int, busy: int) -> None:
        slept = ended - began
        if slept > STOOD_STILL_NS and busy < BUSY * slept and len(self.pauses) < MOST_PAUSES:
            self.pauses.append((began, ended))

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, name)

    def _flush_steps(self) -> None:
        with self._lock:
            rewrite, self._rewrite = self._rewrite, False
            before = [] if rewrite else self._written_steps
            blocks = list(self._blocks(before[-1].last + 1 if before else 0, len(self.numbers) - 1))
            if not blocks and not rewrite:
                return
            text = "".join(
                _step_lines(self.numbers[first : last + 1], self.starts[first : last + 1], kind)
                for first, last, kind in blocks
            )
            self._written_steps = _joined(before, blocks)
        size = self._size("steps.csv")
        try:
            if rewrite:
                write_atomically(self._path("steps.csv"), "step,start_ns,kind\n" + text)
            else:
                append(self._path("steps.csv"), text.encode())
        except OSError:
            # A file that is as long as before lacks these rows alone: of a long run, all of them are hundreds of MB.
            self._written_steps = before
            self._rewrite = self._rewrite or rewrite or size is None or self._size("steps.csv") != size
            raise

    def _size(self, name: str) -> Optional[int]:
        try:
            return os.stat(self._path(name)).st_size
        except OSError:
            return None

    def _blocks(self, first: int, last: int) -> Iterator[Written]:
        """Yield rows by kind."""
        while first <= last:
            kind, end = self.kind(first), last
            while self.kind(end) != kind:
                end = (first + end) // 2
            yield Written(first, end, kind)
            first = end + 1

    def _flush_metrics(self) -> None:
        rows, self._metrics = self._metrics, []
        try:
            if not self._metrics_begun:
                write_atomically(self._path("metrics.csv"), "step,name,value,unit\n")
                self._metrics_begun = True
            if rows:
                append(self._path("metrics.csv"), _lines(rows).encode())
        except OSError as error:
            self._metrics = (rows + self._metrics)[-MOST_WAITING_METRICS:]
            if isinstance(error, FileNotFoundError):
                self._begin_metrics_anew()
            raise

    def _begin_metrics_anew(self) -> None:
        if self._metrics_begun:
            self._metrics_begun = False
            text = "metrics.csv was removed while the workload ran, and what was logged before is lost"
            self._gaps.note("metrics-lost", text)

    def _flush_summary(self) -> None:
        # Indenting takes ten times as long: the last text alone is for people.
        text = json.dumps(self.summary(), indent=1 if self._stop.is_set() else None, default=str) + "\n"
        if text != self._written:
            write_atomically(self._path("probe.json"), text)
            self._written = text
