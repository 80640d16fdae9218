"""A signal to tcprobe reaches the workload under every profiler, at every moment; a killed run is never a success."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tcprobe.capture import process
from tests.faults.kept import check_kept, left
from tests.faults.running import STEPS, Tcprobe
from tests.faults.table import Fault, Kept, cases
from tests.support import NO_NSYS, ROOT, needs_tensorflow

FAKE: Final = ROOT / "tests/fixtures/fake_dlprof"
AGENT_LOST: Final = "Connection to the Agent lost."
"""What nsys 2022.4 says, now and then on a busy machine, where it ends before it has started the workload."""
PROFILERS: Final = ("tensorflow", "nsys", "dlprof")
SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1)
BEFORE, IMPORTS, WINDOW, WRITING = MOMENTS = ("before-the-probe", "in-imports", "in-the-window", "while-it-writes")

SITE: Final = """
import sys, time
if sys.orig_argv[1:] and sys.orig_argv[1].endswith("tcprobe_probe"):
    print("MOMENT", flush=True)
    time.sleep(20)
"""
HANDLERS: Final = """
import signal, sys
def caught(number, frame):
    print(f"CAUGHT {number}", flush=True)
    sys.exit(0)
for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT"):
    signal.signal(getattr(signal, name), caught)
"""
IMPORTING: Final = """
import time
print("MOMENT", flush=True)
{imports}
time.sleep(20)
"""
TRAINING: Final = """
{imports}
import tcprobe, time
for step in range({steps}):
    with tcprobe.step():
        time.sleep(0.02)
    print("loss: %.3f" % (1 / (step + 1)), flush=True)
    if step == {moment}:
        print("MOMENT", flush=True)
"""
SLOW_EXPORT: Final = """
import ctypes, tensorflow
from tensorflow.python.profiler import profiler_v2
class Session:
    def __init__(self):
        self._own = made()
    def start(self, *arguments):
        self._own.start(*arguments)
    def stop(self):
        return self._own.stop()
    def export_to_tb(self):
        print("MOMENT", flush=True)
        self._own.export_to_tb()
        ctypes.CDLL(None).usleep(400000)  # in C, where no handler of Python's runs
made = profiler_v2._pywrap_profiler.ProfilerSession
profiler_v2._pywrap_profiler.ProfilerSession = Session
"""


class Case(NamedTuple):
    """One run: under which profiler, when which signal comes, and whether the workload handles it and ends with 0."""

    profiler: str
    number: signal.Signals
    moment: str
    handled: bool = False
    with_tensorflow: bool = False

    @property
    def script(self) -> str:
        """The workload."""
        imports = "import tensorflow" if self.with_tensorflow else ""
        if self.moment == IMPORTS:
            text = IMPORTING.format(imports=imports)
        elif self.moment == WRITING:
            steps = {"tensorflow": 500, "nsys": 60, "dlprof": 3}[self.profiler]
            text = TRAINING.format(imports=SLOW_EXPORT if self.with_tensorflow else "", steps=steps, moment=-1)
        else:
            text = TRAINING.format(imports=imports, steps=500, moment=8)
        return HANDLERS + text if self.handled else text

    @property
    def sign(self) -> str:
        """What is printed when the moment has come."""
        writing = {"tensorflow": "MOMENT", "nsys": "Generating '", "dlprof": "completed system call"}
        return writing[self.profiler] if self.moment == WRITING else "MOMENT"

    @property
    def options(self) -> Iterator[str]:
        """Those of tcprobe."""
        yield from ("--profiler", self.profiler)
        if self.with_tensorflow and self.moment in (WINDOW, WRITING):
            yield from ("--iter-start", "2", "--iter-stop", "400" if self.moment == WINDOW else "8")

    @property
    def codes(self) -> tuple[int, int | None]:
        """The exit code of tcprobe, and the workload's in run.json."""
        if self.profiler == "dlprof" and self.moment == WRITING:
            return 2, 0  # the workload had ended
        if self.handled:
            return 0, 0
        if self.number == signal.SIGINT:
            if self.profiler == "dlprof":
                return 143, 143  # the second one terminates
            if self.moment == BEFORE:  # Python's own code, which nsys does not tell from its own
                return (2, None) if self.profiler == "nsys" else (1, 1)
        return 128 + self.number, 128 + self.number


def begun(case: Case, work: Path) -> Tcprobe:
    """Start a run that comes to the moment of a case."""
    work.mkdir(exist_ok=True)
    (work / "sitecustomize.py").write_text(SITE if case.moment == BEFORE else "", encoding="utf-8")
    chosen = {
        "PATH": f"{FAKE}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": f"{work}{os.pathsep}{ROOT}",
        "FAKE_DLPROF_MOOD": "slow-postprocess" if case.moment == WRITING else "",
        "FAKE_DLPROF_SECONDS": "20",
    }
    return Tcprobe(work, case.script, *case.options, before=partial(os.environ.update, chosen))


def signalled(case: Case, run: Tcprobe) -> Tcprobe:
    """Send a run its signal when the moment has come; return it, or the one that followed where nsys did not start."""
    if not run.comes_to(case.sign) and AGENT_LOST in run.printed:
        run = begun(case, run.work / "again")
    run.until(case.sign)
    run.send(case.number)
    if case.profiler == "dlprof" and case.number == signal.SIGINT:  # DLProf writes nothing when interrupted
        run.until("Ctrl-C again ends it")
        run.send(case.number)
    return run


def check(case: Case, run: Tcprobe) -> None:
    """Wait for the end of a run, and assert what must hold of it."""
    code, own = case.codes
    assert run.wait() == code, run.printed
    found = left(run.folder())
    assert (found.record["exit_code"], found.record["signals"]) == (own, [case.number.name])
    whole = case.number == signal.SIGUSR1 and own == 0  # the workload had ended
    check_kept(found, Kept.WHOLE if whole else Kept.UNTOLD if own is None else Kept.UNTIL_THEN, 0)
    if case.moment == WRITING and case.profiler != "dlprof":
        assert [path for path in found.folder.rglob("raw/**/*") if path.suffix in (".pb", ".nsys-rep")]
    assert run.processes() == []
    assert "Traceback" not in run.printed or case.number == signal.SIGINT
    assert run.printed.count("CAUGHT") == case.handled


@pytest.mark.usefixtures("one_nsys")
@pytest.mark.parametrize("fault", cases("test_signals_under_profilers.test_sigterm_under_each_profiler"))
def test_sigterm_under_each_profiler(fault: Fault, tmp_path: Path) -> None:
    handled = fault.name.startswith("sigterm-handled")
    moment = WINDOW if handled else fault.name.removeprefix("sigterm-")
    here = [name for name in PROFILERS if name != "nsys" or shutil.which("nsys")]
    if moment == WRITING:
        here.remove("tensorflow")  # which is the workload itself; TensorFlow takes long
    runs = [Case(name, signal.SIGTERM, moment, handled) for name in here]
    begin = [(case, begun(case, tmp_path / case.profiler)) for case in runs]
    for case, run in [(case, signalled(case, run)) for case, run in begin]:
        check(case, run)
        check_kept(left(run.folder()), fault.kept, 8 if moment == WINDOW and case.profiler == "nsys" else 0)
    if "nsys" not in here:
        pytest.skip(f"{NO_NSYS}; under the others it holds")


def _whole_table() -> Iterator[object]:
    unhandled = product(PROFILERS, SIGNALS, MOMENTS, (False,))
    handled = product(PROFILERS, [n for n in SIGNALS if n != signal.SIGUSR1], (IMPORTS, WINDOW), (True,))
    for case in (Case(*each) for each in (*unhandled, *handled)):
        case = case._replace(with_tensorflow=case.profiler == "tensorflow" and case.moment != BEFORE)
        if case.profiler == "dlprof" and case.number == signal.SIGINT and case.handled:
            continue  # what it gets there is SIGTERM, of which there are cases
        marks = [needs_tensorflow] if case.with_tensorflow else []
        if case.profiler == "nsys":
            marks.append(pytest.mark.nsys)
        name = f"{case.profiler}-{case.number.name}-{case.moment}{'-handled' if case.handled else ''}"
        yield pytest.param(case, id=name, marks=marks)


@pytest.mark.long
@pytest.mark.parametrize("case", list(_whole_table()))
def test_every_signal_at_every_moment(case: Case, tmp_path: Path) -> None:
    run = signalled(case, begun(case, tmp_path))
    check(case, run)


@pytest.mark.parametrize("fault", cases("test_signals_under_profilers.test_a_signal_before_anything_has_started"))
def test_a_signal_before_anything_has_started(fault: Fault, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(process, "progress_watcher", interrupted)
    monkeypatch.setenv("PATH", f"{FAKE}{os.pathsep}{os.environ['PATH']}")
    run = Tcprobe(tmp_path, STEPS.format(steps=300, seconds=0.01), "--profiler", "dlprof")
    assert run.wait() == 143, run.printed
    found = left(run.folder())
    check_kept(found, fault.kept, 0)
    assert (found.record["signals"], found.steps) == (["SIGTERM"], [])


@pytest.mark.parametrize("fault", cases("test_signals_under_profilers.test_an_ending_that_nobody_knows"))
def test_an_ending_that_nobody_knows(fault: Fault, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{FAKE}{os.pathsep}{os.environ['PATH']}")
    dies = HANDLERS.replace("sys.exit(0)", "__import__('os').kill(__import__('os').getpid(), signal.SIGKILL)")
    run = Tcprobe(tmp_path, dies + STEPS.format(steps=300, seconds=0.01), "--profiler", "dlprof")
    run.until("loss: 0.100")
    run.send(signal.SIGTERM)
    assert run.wait() == 2, run.printed
    assert "after SIGTERM (whether the workload failed is not known)" in run.printed
    check_kept(left(run.folder()), fault.kept, 0)
