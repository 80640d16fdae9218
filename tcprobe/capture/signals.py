"""What becomes of the signals that reach tcprobe while a workload runs, and until its run folder is whole."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final

from tcprobe.visible import interject

Handler = Callable[[int, FrameType | None], None]

FORWARDED: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
"""Signals that would end us, of a scheduler, of `kill`, of a terminal that closes: they are meant for the workload."""
SAID: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
"""Those of them that are sent to end something: a workload may take its time, or handle them and go on."""


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
def held() -> Iterator[None]:
    """Let the signals that would end us wait until the block has ended, so that what it writes is whole.

    SIGQUIT does not wait: it is left to end a program that hangs.
    """
    came: list[int] = []
    ending = [n for n in (signal.SIGINT, *FORWARDED) if n != signal.SIGQUIT]
    try:
        with handled(dict.fromkeys(ending, lambda number, _: came.append(number))):
            yield
    finally:
        for number in dict.fromkeys(came):
            os.kill(os.getpid(), number)


class WorkloadSignals:
    """Passes signals on to a workload.

    Args:
        own_group: whether the workload has a process group of its own, which the terminal does not reach.
        forward_interrupt: whether the first Ctrl-C is for the workload.
        workload: finds the process that alone it is for; None sends it to the whole group.

    Attributes:
        interrupts: Ctrl-C so far.
    """

    def __init__(
        self, own_group: bool, forward_interrupt: bool, workload: Callable[[], int | None] | None = None
    ) -> None:
        self.own_group, self.forward_interrupt, self.workload = own_group, forward_interrupt, workload
        self.child: subprocess.Popen[bytes] | None = None
        self.interrupts = 0
        self._early: list[signal.Signals] = []

    def started(self, child: subprocess.Popen[bytes]) -> None:
        """Pass on to the workload what reached us while it was being started: it may run long before we know it."""
        self.child = child
        for number in self._early:
            self._send(number)

    def handlers(self) -> dict[signal.Signals, Handler]:
        """Return a handler for each signal that is the workload's."""
        ours: dict[signal.Signals, Handler] = dict.fromkeys(FORWARDED, self._forward)
        ours[signal.SIGINT] = self._interrupted
        if self.own_group:
            ours |= {signal.SIGTSTP: self._stopped, signal.SIGCONT: self._continued}
        else:  # the terminal sends these to the workload as well
            ours |= {signal.SIGHUP: self._wait, signal.SIGQUIT: self._wait}
        return ours

    def _interrupted(self, _number: int, _frame: FrameType | None) -> None:
        self.interrupts += 1
        if self.interrupts > 2:
            self._send(signal.SIGKILL)
        elif self.interrupts == 2:
            self._send(signal.SIGTERM)
            interject("terminating the workload; once more kills it")
        elif not self.forward_interrupt:
            interject("the profiler writes nothing when interrupted, so the workload goes on; Ctrl-C again ends it")
        else:
            if self.own_group:
                self._interrupt()
            interject("interrupted; waiting for the workload to end (Ctrl-C again terminates it)")

    def _interrupt(self) -> None:
        process = self.workload() if self.workload is not None else None
        if process is None:
            self._send(signal.SIGINT)
        else:
            with suppress(ProcessLookupError, PermissionError):  # it has ended meanwhile
                os.kill(process, signal.SIGINT)

    def _forward(self, number: int, frame: FrameType | None) -> None:
        self._send(signal.Signals(number))
        if number in SAID:
            self._wait(number, frame)

    def _wait(self, number: int, _frame: FrameType | None) -> None:
        interject(f"{signal.Signals(number).name}; waiting for the workload to end")

    def _stopped(self, number: int, _frame: FrameType | None) -> None:
        """Stop the workload, then ourselves: the terminal that stops us does not reach it."""
        self._send(signal.Signals(number))
        os.kill(os.getpid(), signal.SIGSTOP)

    def _continued(self, number: int, _frame: FrameType | None) -> None:
        self._send(signal.Signals(number))

    def _send(self, number: signal.Signals) -> None:
        if self.child is None:
            self._early.append(number)
            return
        try:
            if self.own_group:
                os.killpg(self.child.pid, number)
            else:
                self.child.send_signal(number)
        except (ProcessLookupError, PermissionError):
            pass  # it has ended meanwhile
