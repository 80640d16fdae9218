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
DISCARD = "discard"  # close, and remove every profile so far: the steps in them were none
DROP = "drop"  # close without a profile: an earlier one holds more
MEASURE = "measure"  # close, and tell `measured` how large the profile is
Actions = Tuple[str, ...]

# Two step times in a row within this share of the shorter one count as settled.
SETTLED = 0.25
# Steps after which the window begins although step times still vary.
MOST_UNSETTLED = 12
# A pattern that is found wrong after the profile was taken is profiled again, but not for ever.
MAX_RESTARTS = 2
# Host memory that a trace takes while it is recorded, per byte that it takes on disk: 3.2 to 3.9 measured. Nothing
# tells how large a running session is, and memory also grows by the script's own work: growth only asks for a look.
MEMORY_PER_BYTE = 3
# A look costs the steps so far; where the window was asked for, they are missed more.
LATER_IF_ASKED = 4
MOST_LOOKS = 3
# What a step gains besides the trace varies.
VARIES = 2

PHASE_ENDS = "; it ends where another phase begins"
READ = "memory grew, and the trace was read to see why"


class Taken(NamedTuple):
    """Rows that were profiled, should no better ones follow."""

    first_row: int
    last_row: int
    reason: str

    @property
    def length(self) -> int:
        """Rows of steps.csv in it."""
        return self.last_row - self.first_row + 1


class WindowState:
    """Decides when the profiler starts and stops.

    Args:
        config: the orders.
        numbers, starts: number and start in ns of every row of steps.csv so far.

    Attributes:
        state: "waiting", "open", "theirs" (the script's own session runs) or "done".
        first_row, last_row: rows of steps.csv in the window; None while unknown.
        reason: why the window is where it is, for the report.
        is_theirs: the window lies in a profile that the script itself took; known at the end.
    """

    def __init__(self, config: Config, numbers: Sequence[int], starts: Sequence[int]) -> None:
        self.state = "waiting" if config.profile else "done"
        self.first_row: Optional[int] = None
        self.last_row: Optional[int] = None
        self.reason = ""
        self.is_theirs = False
        self._config = config
        self._numbers = numbers
        self._starts = starts
        self._opened_row = 0
        self._opened_ns = 0
        self._sessions = 0  # that were opened, ours and the script's
        self._per_step: Optional[float] = None  # bytes of the trace, once they were measured
        self._besides = 0.0  # bytes of memory that a step gained besides the trace
        self._grown = 0
        self._looks = 0
        self._restart = False
        self._restarts = 0
        self._phase_row: Optional[int] = None  # a phase that began inside the open window
        self._earlier: Optional[Taken] = None
        self._theirs: Optional[Taken] = None

    # --- as steps begin ----------------------------------------------------------------------------------

    def before_step(self, row: int, number: int, now: int, grown: int = 0) -> Actions:
        """Say what the profiler has to do before step `number` begins.

        Args:
            row: row of the step in steps.csv, from 0.
            number: number of the step.
            now: time in ns.
            grown: bytes of memory that the process has gained since the session opened, by the trace or otherwise.
        """
        if self._restart:
            return self._again(row, now)
        if self.state == "waiting":
            return self._open(row, now) if self._may_open(row, number) else ()
        if self.state == "done":
            return ()
        self._settle(row, number, now)
        if self.state == "theirs":
            return ()
        if self._phase_row is not None:
            return self._into_phase(row, now, self._phase_row)
        if self._is_full(row, number, now):
            return self._close(row - 1)
        return (MEASURE,) if self._is_suspect(row, number, grown) else ()

    def measured(self, row: int, number: int, now: int, size: int) -> Actions:
        """Take the size in bytes of the profile that was closed before step `number`; say whether to go on.

        A large trace ends the window. A small one is taken again from here, since one session cannot be continued.
        """
        first, settled, reason = self._numbers[self._opened_row], self.first_row is not None, self.reason
        each = size / max(1, number - first)
        room, kept = self._config.window_bytes / max(each, 1.0), row - (self.first_row or self._opened_row)
        self._earlier = None  # its profile was replaced
        if row - self._opened_row >= room or (settled and room < self._config.window_steps and 2 * kept >= room):
            self._cut("the trace of steps %d to %d takes %s" % (first, number - 1, _megabytes(size)))
            self._end(row - 1)
            return ()
        if self._asked():
            self.reason = "as asked, but only to step %d: " % (number - 1) + READ
        else:
            self._cut(READ)  # said only where the run ends before as many steps are recorded again
        self._end(row - 1)
        self._earlier = self._taken()
        looks, besides = self._looks + 1, max(0.0, self._grown - MEMORY_PER_BYTE * size) / max(1, number - first)
        opening = self._open(row, now)
        self._looks, self._per_step, self._besides = looks, each, besides
        if settled:
            self.first_row, self.reason = row, reason
        if self._asked():
            self.reason = "as asked, but only from step %d: " % number + READ
        return opening

    def revised(self, row: int) -> None:
        """Note that the steps from `row` on were wrong; a window that holds one of them is taken again."""
        last = row if self.last_row is None else self.last_row
        taken = self.state in ("open", "done") and self._config.profile
        if taken and row <= last and self._restarts < MAX_RESTARTS:
            self._restart = True
        if self.state == "theirs":
            self._opened_row = min(self._opened_row, row)
            self.first_row = None if self.first_row is None or self.first_row >= row else self.first_row
        if self._theirs is not None and row <= self._theirs.last_row:
            self._theirs = None

    def phase_began(self, row: int) -> None:
        """Note that other functions train from `row` on, which became known only now.

        A window across that ends before `row`, and one begins in the new phase; one that was asked for stays.
        """
        if self._asked() or self.state not in ("open", "done") or row <= self._opened_row:
            return
        if self.state == "open":
            self._opened_row = row if self.first_row is None else self._opened_row
            if self._phase_row is None and self.first_row is not None and self.first_row < row:
                self._phase_row = row
        elif self.first_row is not None and self.last_row is not None and self.first_row < row <= self.last_row:
            self.last_row, self.reason = row - 1, self.reason + PHASE_ENDS
            self._retake_if_short()

    def is_over(self) -> bool:
        """Say whether no step will be asked about any more."""
        return self.state == "done" and not self._restart

    # --- sessions of the script --------------------------------------------------------------------------

    def preempted(self, row: int) -> bool:
        """Note that the session has to close during step `row`, for the script's own profiler.

        Returns whether the window is to be taken again once that has ended: it was less than half full.
        """
        if self.state != "open":
            return False
        self._end(row)
        self.reason = "cut short by the script's own profiler"
        return self._config.iter_stop is None and self._retake_if_short()

    def script_began(self, now: int) -> None:
        """Note that the script opened a session of its own: it serves where ours cannot."""
        if self.state == "waiting":
            self.state, self._opened_row, self._opened_ns, self.first_row = "theirs", len(self._numbers), now, None
            self._sessions += 1

    def script_ended(self, whole: bool) -> bool:
        """Note that the script's session is over; return whether its profile is the best of its own so far.

        Args:
            whole: the script saved a profile that can be taken.
        """
        if self.state != "theirs":
            return False
        first = self._opened_row if self.first_row is None else self.first_row
        why = "" if self.first_row is None else ", from where " + self.reason
        taken = self._clipped(Taken(first, len(self._numbers) - 1, "in the script's own profile" + why))
        self.state, self.first_row, self.reason = "waiting", None, ""
        if not whole or taken.length < max(1, 0 if self._theirs is None else self._theirs.length + 1):
            return False
        self._theirs = taken
        return True

    def _clipped(self, taken: Taken) -> Taken:
        """Return the part of what the script profiled that was asked for."""
        start, stop = self._config.iter_start, self._config.iter_stop
        rows = [
            row
            for row in range(taken.first_row if start is None else self._opened_row, taken.last_row + 1)
            if (start is None or self._numbers[row] >= start) and (stop is None or self._numbers[row] <= stop)
        ]
        return Taken(rows[0], rows[-1], taken.reason) if rows else Taken(0, -1, "")

    # --- the end -----------------------------------------------------------------------------------------

    def failed(self) -> None:
        """Note that the session could not be opened now; the next step tries again."""
        self.state, self.first_row = "waiting", None
        self._sessions -= 1

    def finish(self, last_row: int) -> Actions:
        """Close the window at the end of the run, after `last_row`; say what the profiler has to do."""
        actions: Actions = ()
        if self.state == "open":
            if self.first_row is None:
                first = self._numbers[self._opened_row]
                what = "its second step" if first == 1 else "step %d" % first
                self.reason = "the run ended before step times settled: profiled from " + what
            elif self._phase_row is not None:
                self.reason, last_row = self.reason + PHASE_ENDS, self._phase_row - 1
            elif not self._asked():
                self.reason += ", cut short by the end of the run"
            actions = self._close(last_row)
        elif self.state == "waiting" and self._earlier is not None:
            self._restore(self._earlier)
        self.state = "done"
        self._choose()
        return actions

    def _choose(self) -> None:
        """Take the script's profile where it holds more, and ours is less than half of a window."""
        ours = 0 if self.first_row is None else self._length()
        if self._theirs is not None and ours < min(self._theirs.length, self._config.window_steps // 2):
            self._restore(self._theirs)
            self.is_theirs = True

    # --- opening and closing -----------------------------------------------------------------------------

    def _length(self) -> int:
        return 0 if self.last_row is None or self.first_row is None else self.last_row - self.first_row + 1

    def _taken(self) -> Optional[Taken]:
        if self.first_row is None or self.last_row is None:
            return None
        return Taken(self.first_row, self.last_row, self.reason)

    def _restore(self, taken: Taken) -> None:
        self.first_row, self.last_row, self.reason = taken

    def _retake_if_short(self) -> bool:
        """Wait for another session where this one was less than half full."""
        if self._length() >= self._config.window_steps // 2:
            return False
        self._earlier = self._taken()
        self.state, self.first_row, self.last_row = "waiting", None, None
        return True

    def _asked(self) -> bool:
        return self._config.iter_start is not None

    def _may_open(self, row: int, number: int) -> bool:
        start = self._config.iter_start
        return row >= 1 if start is None else number >= start

    def _open(self, row: int, now: int) -> Actions:
        self.state, self._opened_row, self._opened_ns = "open", row, now
        self._sessions += 1
        self.first_row, self.last_row = row if self._asked() else None, None
        self.reason = "as asked" if self._asked() else ""
        self._per_step = self._phase_row = None
        self._besides, self._looks = 0.0, 0
        return (OPEN,)

    def _again(self, row: int, now: int) -> Actions:
        self._restart, self._earlier = False, None
        self._restarts += 1
        return (DISCARD, *self._open(row, now))

    def _into_phase(self, row: int, now: int, phase: int) -> Actions:
        self.reason += PHASE_ENDS
        closing = self._close(phase - 1)
        self._earlier = self._taken()
        return (*closing, *self._open(row, now))

    def _settle(self, row: int, number: int, now: int) -> None:
        """Declare the window where the last two steps took about the same time."""
        if self.first_row is not None or number < self._config.steps_min_skip or row < 2:
            return
        last, previous = now - self._starts[row - 1], self._starts[row - 1] - self._starts[row - 2]
        if abs(last - previous) <= SETTLED * min(last, previous):
            self.first_row, self.reason = row, "step times had settled"
        elif row >= MOST_UNSETTLED or now - self._opened_ns > self._config.window_seconds * 1e9:
            self.first_row, self.reason = row, "step times had not settled after %d steps" % row

    def _is_suspect(self, row: int, number: int, grown: int) -> bool:
        """Say whether the trace may be larger than it should be, so that it is worth a look."""
        if row == self._opened_row or self._looks >= MOST_LOOKS:
            return False
        self._grown = grown
        expected = VARIES * self._besides * (number - self._numbers[self._opened_row])
        most = MEMORY_PER_BYTE * self._config.window_bytes * (LATER_IF_ASKED if self._asked() else 1)
        return grown - expected > most

    def _is_full(self, row: int, number: int, now: int) -> bool:
        config = self._config
        if config.iter_stop is not None and number > config.iter_stop:
            return True
        recorded = number - self._numbers[self._opened_row] if row > self._opened_row else 0
        if self._per_step and (recorded + 1) * self._per_step > config.window_bytes:
            return self._cut("the trace takes %s a step" % _megabytes(self._per_step))
        if self.first_row is None or row == self.first_row or config.iter_stop is not None:
            return False
        if number >= self._numbers[self.first_row] + config.window_steps:
            return True
        spent = (now - self._starts[self.first_row]) / 1e9
        return spent > config.window_seconds and self._cut("its steps took %.0f s" % spent)

    def _cut(self, why: str) -> bool:
        self.reason = "%s; cut short: %s" % (self.reason or "step times had not settled", why)
        return True

    def _close(self, last_row: int) -> Actions:
        self._end(last_row)
        if self._earlier is None or self._earlier.length <= self._length():
            return (CLOSE,)
        self._restore(self._earlier)
        return (DROP,)

    def _end(self, last_row: int) -> None:
        self.state = "done"
        if self.first_row is None or self.first_row > last_row:
            self.first_row = self._opened_row
        self.last_row = max(last_row, self.first_row)

    def kind(self, row: int) -> str:
        """Return where `row` stands: warm-up, measured, profiled or after."""
        if self.first_row is not None and row >= self.first_row:
            return "after" if self.last_row is not None and row > self.last_row else "profiled"
        slowed = self._sessions or self._config.tool  # before a window, as far as is known; none may ever have begun
        if row < self._config.steps_min_skip or (self._config.profile and not self._asked() and slowed):
            return "warm-up"
        return "measured" if self._config.profile else "profiled"  # by another profiler, from beginning to end

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


def _megabytes(size: float) -> str:
    return "%.*f MB" % (0 if size >= 10e6 else 1, size / 1e6)
