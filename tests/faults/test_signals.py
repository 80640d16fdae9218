"""Signals and terminals: the workload gets what is meant for it, and tcprobe lives to write how it ended."""

from __future__ import annotations

import os
import signal
import time
from itertools import pairwise
from pathlib import Path

import pytest

from tcprobe.capture import folder, tensorflow
from tcprobe.capture.base import CaptureRequest, Launch
from tests.faults.kept import Left, check_kept, left
from tests.faults.running import STEPS, Tcprobe, nothing
from tests.faults.table import Fault, Kept, cases

ENDLESS = STEPS.format(steps=10_000, seconds=0.01)
HANDLES = """
import os, signal, sys
def caught(number, frame):
    print(f"CAUGHT {signal.Signals(number).name}\\n", end="", flush=True)  # one write: tcprobe speaks meanwhile
    if number == signal.SIGTERM:
        sys.exit(8)
signal.signal(signal.SIGTERM, caught)
signal.signal(signal.SIGUSR1, caught)
signal.signal(signal.SIGQUIT, caught)
"""
IGNORES = """
import signal
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
"""
SHORT = STEPS.format(steps=100, seconds=0.01)


def ignore_hangups() -> None:
    """Do as `nohup` does."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


def ended(run: Tcprobe, fault: Fault, code: int, steps: int = 10) -> Left:
    """Wait until a run has ended with an exit code, check what is left of it, and return that."""
    assert run.wait() == code, run.printed
    found = left(run.folder())
    check_kept(found, fault.kept, steps)
    return found


@pytest.mark.parametrize("fault", cases("test_signals.test_ctrl_c"))
def test_ctrl_c(fault: Fault, tmp_path: Path) -> None:
    times = {"ctrl-c": 1, "ctrl-c-twice": 2, "ctrl-c-thrice": 3}[fault.name]
    stubborn = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
    run = Tcprobe(tmp_path, ("", stubborn, IGNORES)[times - 1] + ENDLESS, terminal=True)
    run.until("loss: 0.100")
    for said in ("Ctrl-C again terminates it", "once more kills it", "")[:times]:
        os.write(run.terminal, b"\x03")
        run.until(said)
    found = ended(run, fault, (130, 143, 137)[times - 1], steps=0 if times > 1 else 10)
    assert found.record["interrupted"] and "was interrupted" in found.said["partial-run"]


@pytest.mark.parametrize("fault", cases("test_signals.test_the_terminal_is_closed"))
def test_the_terminal_is_closed(fault: Fault, tmp_path: Path) -> None:
    nohup = fault.name == "terminal-closed-nohup"
    # A print to the terminal may fail before the signal comes.
    quiet = "import os, sys\nsys.stdout = open(os.devnull, 'w')\n"
    run = Tcprobe(tmp_path, quiet + SHORT, terminal=True, before=ignore_hangups if nohup else nothing)
    run.until_true(lambda: run.flushed() > 10)
    run.hang_up()
    run.until_true(lambda: not run.states())
    found = left(run.folder())
    check_kept(found, fault.kept, 100 if nohup else 10)
    assert found.record["exit_code"] == (0 if nohup else 129)
    assert (run.folder() / "tables/summary.csv").exists()


@pytest.mark.parametrize("fault", cases("test_signals.test_a_signal_without_a_terminal"))
def test_a_signal_without_a_terminal(fault: Fault, tmp_path: Path) -> None:
    number, code = {
        "sigterm": (signal.SIGTERM, 143),
        "sighup": (signal.SIGHUP, 129),
        "sigquit": (signal.SIGQUIT, 131),
        "sigusr1": (signal.SIGUSR1, 138),
    }[fault.name]
    run = Tcprobe(tmp_path, ENDLESS)
    run.until_true(lambda: run.flushed() > 10)
    run.send(number)
    found = ended(run, fault, code)
    assert number.name in found.said["partial-run"]


@pytest.mark.parametrize("fault", cases("test_signals.test_the_workloads_own_handlers"))
def test_the_workloads_own_handlers(fault: Fault, tmp_path: Path) -> None:
    run = Tcprobe(tmp_path, HANDLES + ENDLESS)
    run.until("loss: 0.100")
    for number in (signal.SIGUSR1, signal.SIGQUIT):
        run.send(number)
        run.until(f"CAUGHT {number.name}")
    run.send(signal.SIGTERM)
    ended(run, fault, 8)
    assert run.printed.count("CAUGHT") == 3


@pytest.mark.parametrize("fault", cases("test_signals.test_a_workload_that_ignores_signals"))
def test_a_workload_that_ignores_signals(fault: Fault, tmp_path: Path) -> None:
    run = Tcprobe(tmp_path, IGNORES + SHORT)
    run.until("loss: 0.100")
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGTERM):
        run.send(number)
    ended(run, fault, 0, steps=100)
    assert "SIGTERM; waiting for the workload to end" in run.printed


@pytest.mark.parametrize("fault", cases("test_signals.test_stop_and_continue"))
def test_stop_and_continue(fault: Fault, tmp_path: Path) -> None:
    in_terminal = fault.name == "ctrl-z"
    run = Tcprobe(tmp_path, SHORT, terminal=in_terminal)
    run.until("loss: 0.100")
    if in_terminal:
        os.write(run.terminal, b"\x1a")
    else:
        run.send(signal.SIGTSTP)
    run.until_true(lambda: [run.states().get(pid) for pid in (run.pid, *run.processes())] == ["T", "T"])
    time.sleep(2.5)
    run.send(signal.SIGCONT, group=in_terminal)
    found = ended(run, fault, 0, steps=100)
    assert "stood still once" in found.said["stood-still"]
    lengths = [stop - start for (_, start), (_, stop) in pairwise(found.steps)]
    assert max(lengths) > 2e9 and max(found.lengths) < 1e9 and len(found.lengths) == 98


@pytest.mark.parametrize("fault", cases("test_signals.test_signals_while_the_folder_is_sealed"))
def test_signals_while_the_folder_is_sealed(fault: Fault, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seal = folder.seal

    def interrupted(made: folder.RunFolder) -> Path:
        for number in (signal.SIGINT, signal.SIGTERM):
            os.kill(os.getpid(), number)
        return seal(made)

    monkeypatch.setattr(folder, "seal", interrupted)
    run = Tcprobe(tmp_path, STEPS.format(steps=3, seconds=0.001))
    assert run.wait() in (-signal.SIGTERM, 130)
    check_kept(left(run.folder()), fault.kept, 3)


@pytest.mark.parametrize("fault", cases("test_signals.test_an_interrupt_before_the_workload_starts"))
def test_an_interrupt_before_the_workload_starts(fault: Fault, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare = tensorflow.prepare

    def interrupted(request: CaptureRequest) -> Launch:
        os.kill(os.getpid(), signal.SIGINT)
        return prepare(request)

    monkeypatch.setattr(tensorflow, "prepare", interrupted)
    run = Tcprobe(tmp_path, STEPS.format(steps=3, seconds=0.001))
    assert run.wait() == 130
    assert "Traceback" not in run.printed
    assert (tmp_path / "tcprobe-runs").exists() is (fault.kept is not Kept.NOTHING)


@pytest.mark.parametrize("fault", cases("test_signals.test_a_parent_that_ignores_how_children_end"))
def test_a_parent_that_ignores_how_children_end(fault: Fault, tmp_path: Path) -> None:
    script = STEPS.format(steps=10, seconds=0.001) + "\nraise SystemExit(4)"
    run = Tcprobe(tmp_path, script, before=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
    assert ended(run, fault, 4).record["exit_code"] == 4
