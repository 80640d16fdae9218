"""Opens and closes the profiler's sessions as the window says, beside those of the script itself.

Where a tool records the process from outside, the session is one recording, which an NVTX range begins and ends.
"""

from __future__ import annotations

import os
import signal
import time
from functools import partial
from threading import current_thread, main_thread
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from .config import Config
from .constants import SCRIPT_BYTES
from .core.framework import Framework, Profiler
from .core.gaps import Gaps
from .core.journal import Journal
from .core.ranges import Ranges
from .core.resources import resident_bytes
from .core.window import CLOSE, DISCARD, DROP, MEASURE, MOST_UNSETTLED, OPEN, PHASE_ENDS, Actions, WindowState


class RecordedRange:
    """The range that the recording begins and ends with; a `core.framework.Profiler`.

    A tool takes the first such range alone, so that what is closed cannot be opened again. Beside the tool the script's
    own profiler is left alone.

    Attributes:
        available: a tool listens.
        is_open: it records.
    """

    def __init__(self, ranges: Ranges, gaps: Gaps) -> None:
        self.available = False
        self.is_open = False
        self.preempted: Callable[[], None] = lambda: None
        self.script_began: Callable[[], None] = lambda: None
        self.script_ends: Callable[[], None] = lambda: None
        self.script_ended: Callable[[List[str]], None] = lambda _: None
        self._ranges = ranges
        self._gaps = gaps
        self._over = False

    def find_tool(self) -> None:
        """Look for the tool, before anything of the script's is imported."""
        self._ranges.find_tool(early=True)
        self.available = self._ranges.listening

    def start(self) -> bool:
        """Begin the range; return False where no tool listens, or its recording is over."""
        if not self.is_open and not self._over:
            self.is_open = bool(self._gaps.run("profiler start", self._ranges.begin_window))
        return self.is_open

    def stop(self) -> None:
        """End the range: the tool writes what it has recorded, and the steps go on unmarked."""
        if self.is_open:
            self.is_open, self._over = False, True
            self._gaps.run("profiler stop", self._ranges.end_window)

    drop = discard = stop

    def size(self) -> int:
        """Return 0: the tool writes the recording elsewhere."""
        return 0

    def adopt(self, paths: Sequence[str]) -> None:
        """Leave the script's own profiles where they are."""


class RecordedWindow(WindowState):
    """A window within one recording, which is not taken again: where steps or phases prove to be others, it moves on.

    Args:
        config, numbers, starts: as of `WindowState`.
        certain: says whether the steps that begin now are marked with their numbers.
    """

    def __init__(
        self, config: Config, numbers: Sequence[int], starts: Sequence[int], certain: Callable[[], bool]
    ) -> None:
        super().__init__(config, numbers, starts)
        self._certain = certain

    def revised(self, row: int) -> None:
        """Note that the steps from `row` on were wrong: the window begins anew where step times settle."""
        if self.state == "open" and not self._asked():
            self._opened_row, self.first_row = min(self._opened_row, row), None

    def phase_began(self, row: int) -> None:
        """Note that other functions train from `row` on; the later phase counts, should it be as long."""
        if self._asked() or self.state != "open" or row <= self._opened_row:
            return
        if self.first_row is not None and self.first_row < row:
            self.last_row, self.reason = row - 1, self.reason + PHASE_ENDS
            self._earlier = self._taken()
        self._opened_row, self.first_row, self.last_row, self.reason = row, None, None, ""

    def _settle(self, row: int, number: int, now: int) -> None:
        if self._certain() or row >= MOST_UNSETTLED:
            super()._settle(row, number, now)

    def _close(self, last_row: int) -> Actions:
        super()._close(last_row)
        return (CLOSE,)


ENDING = (signal.SIGTERM, signal.SIGHUP)  # by a scheduler or `kill`, and by a terminal that closes


class Span(NamedTuple):
    """What a session covers.

    Attributes:
        start_ns, stop_ns: when it ran; None where it did not.
        first_row, last_row: rows of steps.csv whose calls ran in it, the first perhaps in part.
        wall_s: when its window began and ended, in seconds since the epoch; None where it did not. That begins with
            the session where step times never settled.
    """

    start_ns: Optional[int] = None
    stop_ns: Optional[int] = None
    first_row: int = 0
    last_row: int = -1
    wall_s: Tuple[Optional[float], Optional[float]] = (None, None)


class Sessions:
    """The sessions of one run.

    Args:
        config: the orders.
        gaps: takes what fails.
        journal: the steps so far.
        framework: told when the window opens and closes.
        profiler: opens and closes the sessions.
        ranges: marks the steps.
        clock: nanoseconds since the workload began.
        finish: ends the run by a signal, SIGTERM or SIGHUP, that comes while a session is open or a tool listens.
        window: decides.

    Attributes:
        span: what the session of the window covers.
    """

    def __init__(
        self,
        config: Config,
        gaps: Gaps,
        journal: Journal,
        framework: Framework,
        profiler: Profiler,
        ranges: Ranges,
        clock: Callable[[], int],
        finish: Callable[[int], None],
        window: WindowState,
    ) -> None:
        self.window = window
        self.span = Span()
        self._config = config
        self._gaps = gaps
        self._journal = journal
        self._framework = framework
        self._profiler = profiler
        self._ranges = ranges
        self._clock = clock
        self._finish = finish
        self._now = 0
        self._resident = 0
        self._kept = Span()  # of an earlier session, should a later one be dropped
        self._began: Optional[int] = None  # the script's session, while it runs
        self._rows = 0  # steps that had begun before it
        self._script: List[str] = []
        self._script_span = Span()
        self._refused = ""  # why the script's own profile cannot be taken

    def install(self) -> None:
        """Stand beside the sessions that the script opens."""
        profiler = self._profiler
        profiler.preempted = self._preempted
        profiler.script_began, profiler.script_ends = self._script_began, self._script_ends
        profiler.script_ended = self._script_ended

    def record_from_here(self) -> None:
        """Let a tool record from the start of the script: whether a step will ever be found is not known yet."""
        if self._profiler.start():
            self.span = Span(self._clock(), None, 0, wall_s=(time.time(), None))
            self.catch_signals()

    def before_step(self, row: int, number: int) -> bool:
        """Let the window act; return whether it did. Between two steps, in the thread that trains."""
        grown = resident_bytes() - self._resident if self._profiler.is_open else 0
        now = self._now = self._clock()
        actions = self.window.before_step(row, number, now, grown)
        if actions == (MEASURE,):
            self._gaps.run("profiler window", self._close)
            size = self._gaps.run("profiler window", self._profiler.size) or 0
            self._act(self.window.measured(row, number, now, size))
        else:
            self._act(actions)
        if actions or self.window.state != "open" or self.window.first_row != row:
            return bool(actions)
        self._begin()  # of steps before this one, which the session holds too, times had not settled
        return True

    def retracted(self, row: int) -> None:
        """Note that the call with which `row` began was part of the step before, or of none."""
        self.span = self.span._replace(first_row=min(self.span.first_row, max(0, row - 1)))

    def finish(self, last_row: int) -> None:
        """End the window with the run, after `last_row`, and take the script's own profile where it is the better."""
        if self._began is not None:
            self._unmark(DROP)
            self._refused = "its session was still open when the run ended, so that it wrote no profile"
            self.window.script_ended(whole=False)
        self._act(self.window.finish(last_row))
        self._ranges.finish()
        self.release_signals()
        if self.window.is_theirs:
            self.span = self._script_span
            self._framework.window_closes(DISCARD)  # what was counted is of another window
            self._profiler.adopt(self._script)

    def describe(self, count: int) -> Any:
        """Return the `window` of probe.json, in a run of `count` steps so far."""
        described = self.window.describe(count, self.span.start_ns, self.span.stop_ns)
        return (
            None
            if described is None
            else {**described, "wall_s": list(self.span.wall_s), "session": self._steps(count)}
        )

    def _steps(self, count: int) -> Optional[Dict[str, int]]:
        """Return the first and last step whose calls ran in the session of the window; None where it has none."""
        numbers, rows = self._journal.numbers, self.span
        last = min(rows.last_row, len(numbers) - 1)
        if last < rows.first_row:
            return None
        after = numbers[last + 1] if last + 1 < len(numbers) else count
        return {"first_step": numbers[rows.first_row], "last_step": after - 1}

    def conclude(self, count: int) -> None:
        """Say whose profile the window lies in where it is the script's, or why there is none."""
        if self.window.is_theirs:
            message = "the script profiled itself, so that its own profile is used: a copy of %s"
            self._gaps.note("script-profile", message % ", ".join(self._script), level="note")
        elif self._config.profile and self.window.first_row is None and self._profiler.available:
            if self.span.start_ns is None or not self._config.tool:  # a tool has recorded from the start
                self._gaps.note("no-window", *self._why_none(count))

    def _why_none(self, count: int) -> Tuple[str, Optional[str]]:
        """Return why no step was profiled, and what to do."""
        failed = [gap["reason"] for gap in self._gaps.gaps if gap["hook"] in ("profiler start", "profiler window")]
        start, ran = self._config.iter_start, "%d step%s" % (count, "" if count == 1 else "s")
        if self._refused:
            return "the script profiled itself, and %s" % self._refused, "leave its own profiling out"
        if failed:
            return "the profiler could not be started: %s" % failed[0], None
        if start is not None and count <= start:
            return "the run ended after %s, and step %d was the first to profile" % (ran, start), "train longer"
        calls = len(self._journal.numbers)
        if calls < 2:
            return "the run ended after %s, and the profiler starts with the second call" % ran, "train longer"
        return "no session of the profiler could be opened in a run of %s" % ran, None

    # --- our session -------------------------------------------------------------------------------------

    def _act(self, actions: Actions) -> None:
        acts = {OPEN: self._open, CLOSE: self._close, DISCARD: self._discard, DROP: self._drop}
        for action in actions:
            self._gaps.run("profiler window", acts[action])

    def _open(self) -> None:
        records = self._profiler.is_open
        if not self._profiler.start():
            self.window.failed()
            return
        self._resident = resident_bytes()
        if not records:
            # The clock stands still from there on.
            self._kept, self.span = self.span, Span(self._now, None, len(self._journal.numbers))
        self._mark()
        self._begin()
        self.catch_signals()

    def _begin(self) -> None:
        self._framework.window_begins()
        self.span = self.span._replace(wall_s=(time.time(), None))

    def _close(self) -> None:
        ended = (self.span.wall_s[0], time.time())
        self.span = self.span._replace(stop_ns=self._clock(), last_row=len(self._journal.numbers) - 1, wall_s=ended)
        self._unmark(CLOSE)
        self._profiler.stop()
        self.release_signals()

    def _drop(self) -> None:
        self.span = self._kept
        self._unmark(DROP)
        self._profiler.drop()
        self.release_signals()

    def _discard(self) -> None:
        self._unmark(DISCARD)
        self._profiler.discard()
        self.release_signals()

    def _mark(self) -> None:
        self._ranges.open()
        self._framework.window_opens()

    def _unmark(self, how: str) -> None:
        self._framework.window_closes(how)
        self._ranges.close()

    def catch_signals(self) -> None:
        """Save what is recorded before a signal ends the process, unless the script handles it itself.

        Python lets the main thread alone catch signals: where another trains, one that comes ends the process at once.
        """
        for number in ENDING if current_thread() is main_thread() else ():
            if signal.getsignal(number) == signal.SIG_DFL:
                self._gaps.run(number.name, partial(signal.signal, number, self._terminated))

    def release_signals(self) -> None:
        """Leave the signals to the script again, unless a tool still listens to the ranges."""
        for number in ENDING if current_thread() is main_thread() else ():
            if signal.getsignal(number) == self._terminated and not self._ranges.listening:
                signal.signal(number, signal.SIG_DFL)

    def _terminated(self, number: int, _: Any) -> None:
        """Save the profile, then die of the signal as the workload would have."""
        for each in ENDING:  # a terminal or a scheduler sends more than one, and the profile takes a while
            if signal.getsignal(each) == self._terminated:
                signal.signal(each, signal.SIG_IGN)
        self._finish(number)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    # --- the script's own --------------------------------------------------------------------------------

    def _preempted(self) -> None:
        self.window.preempted(len(self._journal.numbers) - 1)
        self._close()

    def _script_began(self) -> None:
        self.window.script_began(self._clock())
        if self.window.state == "theirs":
            self._began, self._rows = self._clock(), len(self._journal.numbers)
            self._mark()

    def _script_ends(self) -> None:
        if self._began is not None:
            self._unmark(DROP)

    def _script_ended(self, paths: List[str]) -> None:
        if self._began is None:
            return
        # The step that runs as the session begins is in it in part.
        span = Span(self._began, self._clock(), max(0, self._rows - 1), len(self._journal.numbers) - 1)
        self._began = None
        size = sum(os.path.getsize(path) for path in paths)
        usable, held = 0 < size <= SCRIPT_BYTES, len(self._journal.numbers) > self._rows
        if self.window.script_ended(usable):
            self._script, self._script_span = paths, span
        elif held and not usable:
            self._refused = _refusal(size, paths)


def _refusal(size: int, paths: List[str]) -> str:
    if not size:
        return "its session left no *.xplane.pb file"
    sizes = "%d MB is larger than the %d MB that are copied" % (size // 10**6, SCRIPT_BYTES // 10**6)
    return "its profile of %s: %s" % (sizes, ", ".join(paths))
