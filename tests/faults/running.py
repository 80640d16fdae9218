"""Runs `tcprobe profile` in a fork of the tests' process: an own session, its own terminal where one is asked for."""

from __future__ import annotations

import os
import pty
import select
import signal
import sys
import textwrap
import time
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, NoReturn

import tcprobe.flows.profile  # noqa: F401 - loaded once here, it is there in every fork
from tcprobe.__main__ import main
from tests.support import ROOT

LONGEST = 60.0
"""Seconds after which a run that hangs is killed and its test fails."""
STEPS = """
import tcprobe, time
for step in range({steps}):
    with tcprobe.step():
        time.sleep({seconds})
    print("loss: %.3f" % (1 / (step + 1)), flush=True)
"""
"""A workload whose steps are marked; it needs no TensorFlow."""


def nothing() -> None:
    """Do nothing."""


class Tcprobe:
    """One `tcprobe profile` of a script, started.

    Args:
        work: its working directory, where run folders appear.
        code: the script's text.
        options: of `tcprobe profile`.
        before: called in the new process before tcprobe runs, to put the fault in place.
        terminal: whether it is a shell's job in the foreground of a terminal; else its output goes to a file.

    Attributes:
        started: all of this test.
        pid: of tcprobe, which leads its process group.
        session: of the leader of its session: tcprobe itself, or the shell.
        code: how the leader ended, by itself or as tcprobe did: exit code, or minus a signal; None before `wait`.
    """

    started: ClassVar[list[Tcprobe]] = []

    def __init__(
        self,
        work: Path,
        code: str,
        *options: str,
        before: Callable[[], None] = nothing,
        terminal: bool = False,
    ) -> None:
        self.work = work
        self.code: int | None = None
        self._text = b""
        (work / "train.py").write_text(textwrap.dedent(code), encoding="utf-8")
        arguments = ["profile", *options, "train.py"]
        self._log = work / "printed.txt"
        told, tell = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # fork with threads: the child runs Python code only
            self.session, self.terminal = pty.fork() if terminal else (os.fork(), -1)
        if self.session == 0:
            if terminal:
                _run_as_job(tell)
            _become(work, arguments, before, None if terminal else self._log)
        os.close(tell)
        self.pid = int(os.read(told, 20)) if terminal else self.session
        os.close(told)
        self.started.append(self)

    @property
    def printed(self) -> str:
        """All that tcprobe and the workload have printed so far."""
        if self.terminal < 0:
            return self._log.read_text(encoding="utf-8", errors="replace") if self._log.exists() else ""
        with suppress(OSError):
            while select.select([self.terminal], [], [], 0)[0] and (new := os.read(self.terminal, 65536)):
                self._text += new
        return self._text.decode(errors="replace").replace("\r\n", "\n")

    def comes_to(self, text: str) -> bool:
        """Wait until it has printed a text or ended; say whether it has printed it."""
        self.until_true(lambda: text in self.printed or self._has_ended())
        return text in self.printed

    def until(self, text: str) -> None:
        """Wait until it has printed a text."""
        assert self.comes_to(text), self.printed

    def until_true(self, met: Callable[[], bool]) -> None:
        """Wait until something is true."""
        end = time.monotonic() + LONGEST
        while not met():
            if time.monotonic() > end:
                self.kill()
                raise AssertionError(f"it never came to that; it printed: {self.printed}")
            time.sleep(0.01)

    def send(self, number: signal.Signals, group: bool = False) -> None:
        """Send tcprobe a signal, or its process group."""
        (os.killpg if group else os.kill)(self.pid, number)

    def wait(self) -> int:
        """Return how tcprobe ended, once it has."""
        self.until_true(self._has_ended)
        _ = self.printed
        assert self.code is not None
        return self.code

    def _has_ended(self) -> bool:
        _ = self.printed  # a terminal that nobody reads blocks who writes
        if self.code is None:
            pid, status = os.waitpid(self.session, os.WNOHANG)
            self.code = os.waitstatus_to_exitcode(status) if pid else None
        return self.code is not None

    def kill(self) -> None:
        """Kill tcprobe and the workload, whatever became of them."""
        with suppress(ProcessLookupError):
            for pid in self.states():
                os.kill(pid, signal.SIGKILL)
        if self.code is None:
            with suppress(ProcessLookupError):
                os.kill(self.session, signal.SIGKILL)
            os.waitpid(self.session, 0)
            self.code = -signal.SIGKILL

    def hang_up(self) -> None:
        """Close its terminal, as the window around it does."""
        _ = self.printed
        os.close(self.terminal)
        self.terminal, self._log = -1, self._log.with_name("none")

    def states(self) -> dict[int, str]:
        """Return the processes of its session that run now, each with its state (T: stopped)."""
        found = {}
        for entry in Path("/proc").iterdir():
            with suppress(OSError, ValueError, IndexError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(fields[3]) == self.session and fields[0] != "Z":
                    found[int(entry.name)] = fields[0]
        return found

    def processes(self) -> list[int]:
        """Return what it has started and runs now: the workload, and what that started."""
        return sorted(set(self.states()) - {self.pid, self.session})

    def flushed(self) -> int:
        """Return how many steps are on disk now."""
        found = list(self.work.glob("tcprobe-runs/*/probe/steps.csv"))
        return found[0].read_text(encoding="utf-8").count("\n") - 1 if found else 0

    def folder(self) -> Path:
        """Return the one run folder, under its final or its temporary name."""
        (found,) = (self.work / "tcprobe-runs").iterdir()
        return found


def _run_as_job(tell: int) -> None:
    """Return in a new job, in the foreground of this terminal; the shell waits for it and ends as it does."""
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    job = os.fork()
    if job:
        os.write(tell, str(job).encode())
        os._exit(os.waitstatus_to_exitcode(os.waitpid(job, 0)[1]) & 0xFF)
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpgrp())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)


def _become(work: Path, arguments: list[str], before: Callable[[], None], log: Path | None) -> NoReturn:
    code = 70
    try:
        if log is not None:
            os.setsid()
            out, null = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND), os.open(os.devnull, os.O_RDONLY)
            for source, target in ((null, 0), (out, 1), (out, 2)):
                os.dup2(source, target)
        for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP):
            signal.signal(number, signal.SIG_DFL)
        os.chdir(work)
        os.environ["PYTHONPATH"] = str(ROOT)
        sys.argv = ["tcprobe", *arguments]
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - pytest's own are in its way
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False, buffering=1)  # noqa: SIM115
        before()
        try:
            code = main()
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 1
        sys.stdout.flush()
    except BaseException:  # noqa: BLE001 - it goes no further
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(code)
