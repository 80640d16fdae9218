"""What becomes of the signals that reach tcprobe while a workload runs, and until its run folder is whole.

A profiler would not pass each on once, so they are for the processes below it, as /proc shows them.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Final

from tcprobe.visible import interject

PROC: Final = Path("/proc")
Handler = Callable[[int, FrameType | None], None]

FORWARDED: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
"""Signals that would end us, of a scheduler, of `kill`, of a terminal that closes: they are meant for the workload."""
SAID: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
"""Those of them that are sent to end something: a workload may take its time, or handle them and go on."""
ENDING: Final = (signal.SIGINT, *SAID)
PATIENCE: Final = 5.0
"""Seconds that a signal waits for a workload below a profiler to begin; then it is for all that was started."""


@contextmanager
def handled(handlers: Mapping[signal.Signals, Handler]) -> Iterator[None]:
    """Handle signals that are not ignored; afterwards restore the handlers. Off the main thread it does nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {n: signal.getsignal(n) for n in handlers}
    taken = [n for n in handlers if before[n] is not signal.SIG_IGN]
    try:
        for number in taken:
            signal.signal(number, handlers[number])
        yield
    finally:
        for number in taken:
            signal.signal(number, before[number])


@contextmanager
def told_of_children() -> Iterator[None]:
    """Be told how children end, also where whoever started us ignores that (SIGCHLD): the system then says 0 of all."""
    ignored = signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN
    if not ignored or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)


@contextmanager
def held() -> Iterator[list[int]]:
    """Let the signals that would end us wait until the block has ended, so that what it writes is whole.

    SIGQUIT does not wait: it is left to end a program that hangs. The block gets the list of those that wait; what it
    takes out of it is its own to pass on.
    """
    came: list[int] = []
    ending = [n for n in (signal.SIGINT, *FORWARDED) if n != signal.SIGQUIT]
    try:
        with handled(dict.fromkeys(ending, lambda number, _: came.append(number))):
            yield came
    finally:
        for number in dict.fromkeys(came):
            os.kill(os.getpid(), number)


class WorkloadSignals:
    """Passes signals on to a workload.

    Args:
        own_group: whether the workload has a process group of its own, which the terminal does not reach.
        forward_interrupt: whether the first Ctrl-C is for the workload.
        workload: finds the processes that alone signals are for, below the one that was started; None before there are
            any. Itself None where signals are for the whole group.

    Attributes:
        came: the signals so far, without those that stop and continue.
        died_of: one of them that a process of the workload did not handle.
    """

    def __init__(
        self,
        own_group: bool,
        forward_interrupt: bool,
        workload: Callable[[int], Sequence[int] | None] | None = None,
    ) -> None:
        self.own_group, self.forward_interrupt, self.workload = own_group, forward_interrupt, workload
        self.child: subprocess.Popen[bytes] | None = None
        self.came: list[signal.Signals] = []
        self.died_of: int | None = None
        self._waiting: list[tuple[signal.Signals, float]] = []

    def take(self, early: list[int]) -> None:
        """Handle what came before these handlers were there, and empty the list."""
        while early:
            os.kill(os.getpid(), early.pop(0))

    def started(self, child: subprocess.Popen[bytes]) -> None:
        """Pass on to the workload what reached us while it was being started: it may run long before we know it."""
        self.child = child
        self.deliver()

    def deliver(self) -> None:
        """Pass on what waits for the workload to begin."""
        waiting, self._waiting = self._waiting, []
        for number, until in waiting:
            self._send(number, until)

    def handlers(self) -> dict[signal.Signals, Handler]:
        """Return a handler for each signal that is the workload's."""
        ours: dict[signal.Signals, Handler] = dict.fromkeys(FORWARDED, self._forward)
        ours[signal.SIGINT] = self._interrupted
        if self.own_group:
            ours |= dict.fromkeys((signal.SIGTSTP, signal.SIGCONT), self._stopped_or_continued)
        else:  # the terminal sends these to the workload as well
            ours |= {signal.SIGHUP: self._wait, signal.SIGQUIT: self._wait}
        return ours

    def _interrupted(self, number: int, _frame: FrameType | None) -> None:
        self.came.append(signal.Signals(number))
        interrupts = self.came.count(signal.SIGINT)
        if interrupts > 2:
            self._send(signal.SIGKILL)
        elif interrupts == 2:
            self._send(signal.SIGTERM)
            interject("terminating the workload; once more kills it")
        elif not self.forward_interrupt:
            interject("the profiler writes nothing when interrupted, so the workload goes on; Ctrl-C again ends it")
        else:
            if self.own_group:
                self._send(signal.SIGINT)
            interject("interrupted; waiting for the workload to end (Ctrl-C again terminates it)")

    def _forward(self, number: int, frame: FrameType | None) -> None:
        self._send(signal.Signals(number))
        if number in SAID:
            self._wait(number, frame)
        else:
            self.came.append(signal.Signals(number))

    def _wait(self, number: int, _frame: FrameType | None) -> None:
        self.came.append(signal.Signals(number))
        interject(f"{signal.Signals(number).name}; waiting for the workload to end")

    def _stopped_or_continued(self, number: int, _frame: FrameType | None) -> None:
        """Stop all that was started, then ourselves: the terminal that stops us does not reach it. Or let it go on."""
        for process in self._processes() or ():
            self._kill(process, number)
        self._send_all(signal.Signals(number))
        if number == signal.SIGTSTP:
            os.kill(os.getpid(), signal.SIGSTOP)

    def _send(self, number: signal.Signals, until: float | None = None) -> None:
        """Send the workload a signal; wait until `until`, on the clock of `time.monotonic`, for it to begin."""
        until = time.monotonic() + PATIENCE if until is None else until
        processes = self._processes()
        if processes:
            for process in processes:
                self._kill(process, number)
        elif self.child is None or (processes is None and time.monotonic() < until):
            self._waiting.append((number, until))
        else:
            self._send_all(number)

    def _processes(self) -> Sequence[int] | None:
        """Return the processes that signals are for; none where they are for all, None before there are any."""
        if self.child is None or self.workload is None:
            return ()
        return self.workload(self.child.pid)

    def _kill(self, process: int, number: int) -> None:
        dies = dies_of(process, number)
        with suppress(ProcessLookupError, PermissionError):  # it has ended meanwhile
            os.kill(process, number)
            self.died_of = self.died_of or (number if dies else None)

    def _send_all(self, number: signal.Signals) -> None:
        if self.child is None:
            return
        with suppress(ProcessLookupError, PermissionError):  # it has ended meanwhile
            if self.own_group:
                os.killpg(self.child.pid, number)
            else:
                self.child.send_signal(number)


def processes(words: Sequence[str], command: int) -> Iterator[int]:
    """Yield the topmost processes of a command line below another process: a child of theirs is their own affair.

    Args:
        words: the command line; its first word may lead to an interpreter of another name.
        command: the process above them.
    """
    children: dict[int, list[int]] = {}
    for process in (int(entry.name) for entry in PROC.glob("[0-9]*")):
        children.setdefault(_parent(process), []).append(process)
    wanted, below = [os.fsencode(word) for word in words[1:]], [command]
    while below:
        for process in children.get(below.pop(), ()):
            if _words(process)[1:] == wanted:
                yield process
            else:
                below.append(process)


def _parent(process: int) -> int:
    with suppress(OSError):
        return int((PROC / str(process) / "stat").read_text(errors="replace").rpartition(")")[2].split()[1])
    return 0


def _words(process: int) -> list[bytes]:
    with suppress(OSError):
        return (PROC / str(process) / "cmdline").read_bytes().split(b"\0")[:-1]
    return []


def dies_of(process: int, number: int) -> bool:
    """Say whether a signal ends a process, which neither handles nor ignores it; not so where that cannot be told."""
    try:
        status = (PROC / str(process) / "status").read_text(errors="replace")
    except OSError:
        return False
    masks = re.findall(r"^Sig(?:Ign|Cgt):\s*([0-9a-f]+)$", status, re.MULTILINE)
    return len(masks) == 2 and not any(int(mask, 16) >> (number - 1) & 1 for mask in masks)
