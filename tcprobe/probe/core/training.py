"""Counts training calls: knows which functions train, whose call runs now, and which thread trains."""

from __future__ import annotations

import collections
import operator
import threading
import time
from threading import get_ident
from typing import Any, Callable, Deque, Dict, List, Optional, Tuple

from ..constants import HANDED_OVER, PHASES
from .gaps import Gaps
from .journal import CallLog
from .ranges import Ranges
from .stepper import Stepper
from .threads import Aside, Threads


class Callee:
    """What the script calls from outside any other: a compiled function, or the lines of an eager step.

    One that trains is a part of training: a function that trains now these variables, now those is several.

    Attributes:
        key: its number, which graph.json and the stepper know it by.
        name: of the function, or of the lines.
        model: that the framework's own `fit` trains by it; None of what the script calls itself.
        eager: it stands for eager lines.
        begins: a step may begin with it.
        training: it trains.
        steps: steps that one call makes.
        calls: training calls that have been counted.
        made: steps that they made.
    """

    __slots__ = ("begins", "calls", "eager", "key", "made", "model", "name", "steps", "training")

    def __init__(self, key: int, name: str, eager: bool, begins: bool = True) -> None:
        self.key = key
        self.name = name
        self.model: Optional[str] = None
        self.eager = eager
        self.begins = begins
        self.training = False
        self.steps = 1
        self.calls = 0
        self.made = 0

    @property
    def title(self) -> str:
        """Return what reports call it: the framework's name for its own function says nothing of several models."""
        return self.name if self.model is None else "fit of " + self.model


# A call for the journal's thread: callee, reading of the clock, thread. No callee: the call before was none. A plain
# tuple, since a named one takes longer to make than all else that a deferred call does.
Noted = Tuple[Optional[Callee], int, int]
BLOCK = 256  # calls counted together
MOST_RETRACES = 1000  # that are listed; of a run that traces in every step none stands out
KEY, STEPS = operator.attrgetter("key"), operator.attrgetter("steps")


class TrainingCalls:
    """Tells the stepper of every training call.

    Args:
        stepper: takes the calls, in order.
        log: keeps them.
        ranges: marks the phases.
        at: nanoseconds since the start of the workload at a reading of `time.perf_counter_ns`.
        gaps: takes what fails.
        function: name of the one function whose calls are the steps; None for all that train.

    Attributes:
        threads: tells what runs in which, and keeps the calls of those that do not have the steps.
        failed: the latest training call raised, so that its step is not whole.
        deferred: calls are only noted, and the journal's thread counts them; so once the window is over.
        enabled: calls are still counted.
        owner: the thread that has the steps; calls of others are none. None until one has trained.
        callees: all that have been seen, by key.
        note: takes a `Noted`.
        retraces: functions that were traced again, and when a call of each that did so had ended; the first ones.
    """

    def __init__(
        self,
        stepper: Stepper,
        log: CallLog,
        ranges: Ranges,
        at: Callable[[int], int],
        gaps: Gaps,
        function: Optional[str],
    ) -> None:
        self.threads = Threads(log)
        self.failed = False
        self.deferred = False
        self.enabled = True
        self.owner: Optional[int] = None
        self.callees: List[Callee] = []
        self.stepper = stepper
        self._log = log
        self._ranges = ranges
        self._at = at
        self._gaps = gaps
        self._function = function
        self._waiting: Deque[Noted] = collections.deque()
        self._latest: Optional[Tuple[Callee, int]] = None
        self._lock = threading.RLock()
        self.note = self._waiting.append
        self.retraces: List[Tuple[str, int]] = []

    def clock(self) -> int:
        """Return nanoseconds since the start of the workload, as calls are timed."""
        return self._at(time.perf_counter_ns())

    def retraced(self, name: str) -> None:
        """Note that a call that has just ended has traced a function again."""
        if len(self.retraces) < MOST_RETRACES and get_ident() == self.owner:
            self.retraces.append((name, self.clock()))

    def add(self, name: str, eager: bool, begins: bool = True) -> Callee:
        """Return a new callee; it trains at once where it is the function that was asked for."""
        callee = Callee(len(self.callees), name, eager, begins)
        callee.training = self._function is not None and ("." + name).endswith("." + self._function)
        self.callees.append(callee)
        return callee

    def trains(self, callee: Optional[Callee]) -> bool:
        """Note that a callee trains; return whether that is news. Where one function was asked for, it alone does."""
        if callee is None or callee.training or self._function is not None:
            return False
        callee.training = True
        return True

    def running(self) -> Optional[Tuple[Callee, int]]:
        """Return the training call that is about to run and was counted already, with its steps; None outside."""
        latest = self._latest
        return latest if latest is not None and latest[0] is self.threads.here.current else None

    def is_eager(self) -> bool:
        """Say whether a step of eager lines has been seen."""
        return any(callee.training and callee.eager and callee.begins for callee in self.callees)

    def described(self) -> List[Dict[str, Any]]:
        """Return the callees that train, as probe.json has them."""
        return [
            {"key": callee.key, "name": callee.title, "eager": callee.eager, "begins": callee.begins}
            for callee in self.callees
            if callee.training
        ]

    def begin(self, callee: Callee, steps: Optional[int] = None) -> None:
        """Begin a call that trains, as a phase of its step; it makes `steps` where these are other than usual."""
        self.threads.enter(callee)
        self.failed = False
        try:
            self.count(callee, None, steps)
            self.begin_range(callee)
        except Exception as error:
            self._gaps.add("steps", error)
            self.disable()

    def begin_range(self, callee: Callee) -> None:
        """Begin the range of a call, which `end` ends."""
        if self._ranges.active:
            name = callee.name.rpartition(".")[2]
            text = name + "()" if name in PHASES else name  # a function of that name may be all of a step
            self._gaps.run("ranges", lambda: self._ranges.begin_phase(text))

    def end(self) -> None:
        """End the call that runs, and its phase."""
        self.threads.leave(not self.enabled)
        if self._ranges.active:
            self._gaps.run("ranges", self._ranges.end_phase)

    def fail(self, out_of_data: bool) -> None:
        """Note that the training call which runs raised; `out_of_data`: before it trained, so that it is none."""
        if get_ident() != self.owner:
            return
        self.failed = True
        if out_of_data:
            self.note((None, 0, 0))
            if not self.deferred:
                self._gaps.run("steps", self.drain)

    def count_late(self, callee: Callee, began: int, steps: Optional[int] = None) -> None:
        """Count a call that turned out to train while it ran.

        Args:
            callee: what was called; `steps` is known now.
            began: reading of `time.perf_counter_ns` at its start.
            steps: that it made, where these are other than usual.
        """
        if self.owner is None:
            self.owner = get_ident()
        self.count(callee, began, steps)

    def count(self, callee: Callee, began: Optional[int] = None, steps: Optional[int] = None) -> None:
        """Count a training call that begins now, or that `began` earlier; one of a thread without the steps is none."""
        if not self.enabled:
            return
        if self.deferred and steps is None and get_ident() == self.owner:
            self.note((callee, time.perf_counter_ns() if began is None else began, get_ident()))
            return
        self.drain()
        with self._lock:
            self._take(callee, None if began is None else self._at(began), steps, get_ident())

    def recount(self, part: Optional[Callee], began: int) -> None:
        """Count the latest call, which began at `began`, as one of another part, or as none."""
        if get_ident() != self.owner:
            return
        self.note((None, 0, 0))
        if part is not None:
            self.note((part, began, get_ident()))
        if not self.deferred:
            self.drain()

    def drain(self) -> None:
        """Count the calls that have only been noted."""
        with self._lock:
            while self._waiting:
                noted = [self._waiting.popleft() for _ in range(min(len(self._waiting), BLOCK))]
                for callee, clock, thread in noted[self._count_together(noted) :]:
                    if callee is None:
                        self._take_back()
                    else:
                        self._take(callee, self._at(clock), None, thread)

    def conclude(self) -> None:
        """Keep what other threads have called; the run is at its end."""
        with self._lock:
            self.threads.flush()

    def _count_together(self, noted: List[Noted]) -> int:
        """Count the first of these calls, as far as they go on with the pattern; return how many."""
        callees, clocks, threads = zip(*noted)
        if threads.count(self.owner) < len(noted):
            return 0
        began = self._at(0)
        keys, steps, starts = list(map(KEY, callees)), list(map(STEPS, callees)), [clock + began for clock in clocks]
        done = 0
        while done < len(keys):
            count = self.stepper.follow(keys[done:], steps[done:], starts[done:])
            if not count:
                break
            done += count
        for callee, calls in collections.Counter(callees[:done]).items():
            callee.calls += calls
            callee.made += calls * callee.steps
        if done:
            self._latest = callees[done - 1], callees[done - 1].steps
            self._log.add_all(keys[:done], starts[:done], steps[:done])
            self.threads.called(starts[done - 1], done)
        return done

    def _take(self, callee: Callee, start: Optional[int], steps: Optional[int], thread: int) -> None:
        """Count a call of any thread: with those before it where that has the steps from now on."""
        if thread == self.owner or self.owner is None:
            self._tell(callee, start, steps)
            return
        made = callee.steps if steps is None else steps
        call = Aside(callee, self._at(time.perf_counter_ns()) if start is None else start, made)
        taken = self.threads.aside(thread, self.owner, call)
        if taken:
            self._log.hand_over(self.owner, thread, taken[0].start)
            self.owner = thread
        for one in taken:
            self._tell(one.callee, one.start, one.steps)

    def _tell(self, callee: Callee, start: Optional[int], steps: Optional[int]) -> None:
        steps = callee.steps if steps is None else steps
        callee.calls += 1
        callee.made += steps
        self._latest = callee, steps
        self.stepper.call(callee.key, steps, start, callee.begins)
        start = self._at(time.perf_counter_ns()) if start is None else start  # not before the step that it begins
        self.threads.called(start)
        self._log.add(callee.key, start, min(max(steps, 0), HANDED_OVER - 1))

    def _take_back(self) -> None:
        latest, self._latest = self._latest, None
        if latest is not None:
            latest[0].calls -= 1
            latest[0].made -= latest[1]
            self._log.take_back(self._at(time.perf_counter_ns()))
        self.stepper.retract()

    def disable(self) -> None:
        """Count no more; hooks pass everything of this thread's through."""
        self.enabled, self.threads.here.inside = False, True
