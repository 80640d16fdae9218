"""Decides which steps are profiled: a state machine over steps and times.

Nobody can tell how long a run will be. The session therefore opens at the second step, and the window that is
reported begins where step times have settled; a run that ends before has its profile from the second step on.
One session serves both, so that a short run loses nothing and a long one pays for no second start.
"""

from __future__ import annotations

from typing import Any, Dict, NamedTuple, Optional, Sequence, Tuple

from ..config import Config

OPEN = "open"
CLOSE = "close"
DISCARD = "discard"

# Two step times in a row within this share of the shorter one count as settled.
SETTLED = 0.25
# Steps after which the window begins although step times still vary.
MOST_UNSETTLED = 12
# A pattern that is found wrong after the profile was taken is profiled again, but not for ever.
MAX_RESTARTS = 2
# Host memory that a trace takes while it is recorded, per byte that it takes on disk: an event takes about 100 bytes
# in memory and 24 to 42 in an XSpace file.
MEMORY_PER_BYTE = 3


class Taken(NamedTuple):
    """A window that was profiled, should no better one follow."""

    first_row: Optional[int]
    last_row: Optional[int]
    reason: str


class WindowState:
    """Decides when the profiler starts and stops.

    Args:
        config: the orders.
        numbers, starts: number and start in ns of every row of steps.csv so far.

    Attributes:
        state: "waiting", "open" or "done".
        first_row, last_row: rows of steps.csv in the window; None while unknown.
        reason: why the window is where it is, for the report.
    """

    def __init__(self, config: Config, numbers: Sequence[int], starts: Sequence[int]) -> None:
        self.state = "waiting" if config.profile else "done"
        self.first_row: Optional[int] = None
        self.last_row: Optional[int] = None
        self.reason = ""
        self._config = config
        self._numbers = numbers
        self._starts = starts
        self._opened_row = 0
        self._opened_ns = 0
        self._phase_row: Optional[int] = None  # a phase that began inside the open window
        self._restart = False
        self._restarts = 0
        self._earlier: Optional[Taken] = None

    def before_step(self, row: int, number: int, now: int, grown: int = 0) -> Tuple[str, ...]:
        """Say what the profiler has to do before step `number` begins.

        Args:
            row: row of the step in steps.csv, from 0.
            number: number of the step.
            now: time in ns.
            grown: bytes of memory that the process has gained since the session opened.
        """
        if self.state == "done" and not self._restart:
            return ()
        if self._restart:
            return self._again(row, now)
        if self.state == "waiting":
            return self._open(row, now) if self._may_open(row, number) else ()
        if self._phase_row is not None:
            return self._close(self._phase_row)
        self._settle(row, number, now)
        return self._close(row) if self._is_full(row, number, now, grown) else ()

    def revised(self, row: int) -> None:
        """Note that the steps from `row` on were wrong; a window that holds one of them is taken again."""
        last = row if self.last_row is None else self.last_row
        if self.state != "waiting" and self._config.profile and row <= last and self._restarts < MAX_RESTARTS:
            self._restart = True

    def phase_began(self, row: int) -> None:
        """Note that other functions train from `row` on: a window across that ends before it, a short one moves on."""
        first = self.first_row
        if self.state == "waiting" or row <= self._opened_row:
            return
        if self.state == "open" and (first is None or first >= row) and self._phase_row is None:
            self.first_row, self._opened_row = None, row
        elif first is not None and row - first >= self._config.window_steps // 2:
            self._phase_row = (self._phase_row or row) if self.state == "open" else None
            self.last_row = row - 1 if self.last_row is not None and self.last_row >= row else self.last_row
        elif first is not None and (self.last_row is None or self.last_row >= row):
            self.revised(row)

    def is_over(self) -> bool:
        """Say whether no step will be asked about any more."""
        return self.state == "done" and not self._restart

    def preempted(self, row: int) -> bool:
        """Note that the session has to close during step `row`, for the script's own profiler.

        Returns whether the window is to be taken again once that has ended: it was less than half full.
        """
        if self.state != "open":
            return False
        self._end(row)
        self.reason = "cut short by the script's own profiler"
        if self._config.iter_stop is not None or self._length() >= self._config.window_steps // 2:
            return False
        self._earlier = Taken(self.first_row, self.last_row, self.reason)
        self.state, self.first_row, self.last_row = "waiting", None, None
        return True

    def _length(self) -> int:
        return 0 if self.last_row is None or self.first_row is None else self.last_row - self.first_row + 1

    def failed(self) -> None:
        """Note that the session could not be opened now; the next step tries again."""
        self.state, self.first_row = "waiting", None

    def finish(self, last_row: int) -> bool:
        """Close the window at the end of the run, after `last_row`; return whether a session is open."""
        if self.state == "waiting" and self._earlier is not None:
            self.state = "done"
            earlier = self._earlier
            self.first_row, self.last_row, self.reason = earlier.first_row, earlier.last_row, earlier.reason
        if self.state != "open":
            return False
        if self.first_row is None:
            self.reason = "the run ended before step times settled: profiled from its second step"
        elif not self._asked():
            self.reason += ", cut short by the end of the run"
        self._end(last_row if self._phase_row is None else self._phase_row - 1)
        return True

    def _asked(self) -> bool:
        return self._config.iter_start is not None

    def _may_open(self, row: int, number: int) -> bool:
        start = self._config.iter_start
        return row >= 1 if start is None else number >= start

    def _open(self, row: int, now: int) -> Tuple[str, ...]:
        self.state, self._opened_row, self._opened_ns = "open", row, now
        self.first_row = row if self._asked() else None
        self.reason = "as asked" if self._asked() else ""
        return (OPEN,)

    def _again(self, row: int, now: int) -> Tuple[str, ...]:
        self._restart, self._phase_row = False, None
        self._restarts += 1
        return (DISCARD, *self._open(row, now))

    def _settle(self, row: int, number: int, now: int) -> None:
        """Declare the window where the last two steps took about the same time."""
        if self.first_row is not None or number < self._config.steps_min_skip or row < 2:
            return
        last, previous = now - self._starts[row - 1], self._starts[row - 1] - self._starts[row - 2]
        if abs(last - previous) <= SETTLED * min(last, previous):
            self.first_row, self.reason = row, "step times had settled"
        elif row >= MOST_UNSETTLED or now - self._opened_ns > self._config.window_seconds * 1e9:
            self.first_row, self.reason = row, "step times had not settled after %d steps" % row

    def _is_full(self, row: int, number: int, now: int, grown: int) -> bool:
        config = self._config
        if grown > MEMORY_PER_BYTE * config.window_bytes and row > self._opened_row:
            return self._because(
                "cut short: the trace took more than %d MB of memory" % (MEMORY_PER_BYTE * config.window_bytes // 10**6)
            )
        if config.iter_stop is not None and number > config.iter_stop:
            return self._because(self.reason or "as asked")
        if self.first_row is None or row == self.first_row:
            return False
        if config.iter_stop is None and number >= self._numbers[self.first_row] + config.window_steps:
            return self._because(self.reason)
        spent = now - self._starts[self.first_row]
        if config.iter_stop is None and spent > config.window_seconds * 1e9:
            return self._because("%s; cut short after %.0f s" % (self.reason, config.window_seconds))
        return False

    def _because(self, reason: str) -> bool:
        self.reason = reason
        return True

    def _close(self, row: int) -> Tuple[str, ...]:
        self._end(row - 1)
        return (CLOSE,)

    def _end(self, last_row: int) -> None:
        self.state = "done"
        if self.first_row is None or self.first_row > last_row:
            self.first_row = self._opened_row
        self.last_row = max(last_row, self.first_row)

    def kind(self, row: int) -> str:
        """Return where `row` stands: warm-up, measured, profiled or after."""
        if self.first_row is not None and row >= self.first_row:
            return "after" if self.last_row is not None and row > self.last_row else "profiled"
        if row < self._config.steps_min_skip or (self._config.profile and not self._asked()):
            return "warm-up"
        return "measured"

    def describe(self, count: int, start_ns: Optional[int], stop_ns: Optional[int]) -> Optional[Dict[str, Any]]:
        """Return the `window` of probe.json; None where nothing was profiled.

        Args:
            count: steps begun in the whole run.
            start_ns, stop_ns: when the session ran.
        """
        if self.first_row is None or self.last_row is None or start_ns is None:
            return None
        following = self.last_row + 1
        last = (self._numbers[following] if following < len(self._numbers) else count) - 1
        first = self._numbers[self.first_row]
        return {"first_step": first, "last_step": last, "start_ns": start_ns, "stop_ns": stop_ns, "reason": self.reason}
