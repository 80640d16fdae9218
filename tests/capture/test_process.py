"""A workload runs as if alone: exit codes, signals, output, input, terminal; and progress is told."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tcprobe.capture import process, signals
from tcprobe.capture.base import Launch
from tcprobe.errors import ToolError
from tests.support import ROOT


def python(code: str, **kwargs: bool) -> Launch:
    return Launch((sys.executable, "-c", textwrap.dedent(code)), **kwargs)


RUNNER = """
import sys
from tcprobe.capture import process
from tcprobe.capture.base import Launch
launch = Launch((sys.executable, "-c", sys.argv[1]), forward_interrupt=sys.argv[2] != "keep")
ended = process.run_workload(launch, stdout_to_stderr=sys.argv[2] == "moved")
print("ENDED", ended.exit_code, ended.interrupted, flush=True)
"""


def runner(code: str, forward: str = "forward") -> list[str]:
    return [sys.executable, "-c", RUNNER, textwrap.dedent(code), forward]


@contextmanager
def started(command: list[str], **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Start a runner in a session of its own; whatever a test leaves of it is killed, its workload too."""
    child = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, start_new_session=True, **options)
    with child:
        try:
            yield child
        finally:
            if child.poll() is None:
                for number in (signal.SIGTERM, signal.SIGKILL):  # the first reaches the workload's own group
                    child.send_signal(number)
                    time.sleep(1)


def read_until(descriptor: int, word: bytes, seconds: float = 30) -> bytes:
    text, end = b"", time.monotonic() + seconds
    while word not in text and time.monotonic() < end:
        if select.select([descriptor], [], [], 0.2)[0]:
            try:
                new = os.read(descriptor, 65536)
            except OSError:
                break
            if not new:
                break
            text += new
    assert word in text, text.decode(errors="replace")
    return text


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("pass", 0),
        ("raise SystemExit(7)", 7),
        ("raise ValueError('x')", 1),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 137),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", 139),
    ],
)
def test_the_exit_code_is_the_workloads_own(code: str, expected: int) -> None:
    ended = process.run_workload(python(code))
    assert (ended.exit_code, ended.interrupted) == (expected, False)
    assert ended.wall_ns > 0


def test_output_passes_untouched_and_whole() -> None:
    code = "import sys; sys.stdout.write('x' * 5_000_000); sys.stderr.write('y' * 3_000_000)"
    done = subprocess.run(runner(code), capture_output=True, cwd=ROOT, check=True)
    assert done.stdout == b"x" * 5_000_000 + b"ENDED 0 False\n"
    assert done.stderr == b"y" * 3_000_000


def test_input_reaches_the_workload() -> None:
    done = subprocess.run(runner("print(input()[::-1])"), input=b"abc\n", capture_output=True, cwd=ROOT, check=True)
    assert done.stdout == b"cba\nENDED 0 False\n"


def test_output_can_move_to_standard_error() -> None:
    done = subprocess.run(runner("print('hello')", "moved"), capture_output=True, cwd=ROOT, check=True)
    assert (done.stdout, done.stderr) == (b"ENDED 0 False\n", b"hello\n")


def test_the_environment_adds_to_the_inherited_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INHERITED", "1")
    code = "import os; raise SystemExit(40 + int(os.environ['INHERITED']) + int(os.environ['SET']))"
    assert process.run_workload(Launch((sys.executable, "-c", code), {"SET": "1"})).exit_code == 42


def test_a_program_that_is_missing_is_named() -> None:
    with pytest.raises(ToolError, match="no-such-program: no such program"):
        process.run_workload(Launch(("no-such-program",)))


def test_a_program_that_may_not_run_is_named(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("")
    with pytest.raises(ToolError, match="cannot be started: Permission denied"):
        process.run_workload(Launch((str(tmp_path / "x"),)))


WAITS = """
    import sys, time
    try:
        print("READY", flush=True)
        time.sleep(60)
    except KeyboardInterrupt:
        print("CLEANUP", flush=True)
        sys.exit(9)
"""
STUBBORN = """
    import signal, time
    signal.signal(signal.SIGINT, lambda *a: print("IGNORED", flush=True))
    print("READY", flush=True)
    while True: time.sleep(0.1)
"""


def test_ctrl_c_in_a_terminal_reaches_the_workload_once() -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(ROOT)
        command = runner(WAITS)
        os.execv(command[0], command)
    read_until(terminal, b"READY")
    os.write(terminal, b"\x03")
    text = read_until(terminal, b"True\r\n")
    os.waitpid(pid, 0)
    os.close(terminal)
    assert b"ENDED 9 True" in text
    assert text.count(b"CLEANUP") == 1
    assert b"waiting for the workload to end" in text


def test_an_interrupt_without_a_terminal_is_passed_on_once() -> None:
    with started(runner(WAITS)) as child:
        assert child.stdout is not None
        read_until(child.stdout.fileno(), b"READY\n")
        os.killpg(child.pid, signal.SIGINT)
        text = child.communicate(timeout=30)[0]
    assert text == b"CLEANUP\nENDED 9 True\n"


INTERRUPTED_EARLY = """
import os, pathlib, signal, sys, time
from tcprobe.capture import process
from tcprobe.capture.base import Launch
start, ready = process._start, pathlib.Path(sys.argv[1])

def start_and_be_interrupted(*args):
    child = start(*args)
    while not ready.exists():
        time.sleep(0.01)
    os.kill(os.getpid(), getattr(signal, sys.argv[3]))
    return child

process._start = start_and_be_interrupted
ended = process.run_workload(Launch((sys.executable, "-c", sys.argv[2], sys.argv[1])))
print("ENDED", ended.exit_code, ended.interrupted, flush=True)
"""


@pytest.mark.parametrize(
    ("number", "said"), [("SIGINT", b"CLEANUP\nENDED 9 True\n"), ("SIGTERM", b"ENDED 143 False\n")]
)
def test_a_signal_that_comes_while_the_workload_is_being_started_is_passed_on(
    tmp_path: Path, number: str, said: bytes
) -> None:
    code = textwrap.dedent(WAITS).replace('print("READY", flush=True)', "open(sys.argv[1], 'w').close()")
    with started([sys.executable, "-c", INTERRUPTED_EARLY, str(tmp_path / "ready"), code, number]) as child:
        assert child.communicate(timeout=30)[0] == said


def test_the_second_interrupt_terminates() -> None:
    with started(runner(STUBBORN)) as child:
        assert child.stdout is not None
        read_until(child.stdout.fileno(), b"READY\n")
        child.send_signal(signal.SIGINT)
        read_until(child.stdout.fileno(), b"IGNORED\n")
        child.send_signal(signal.SIGINT)
        assert child.communicate(timeout=30)[0] == b"ENDED 143 True\n"


def test_a_workload_that_must_not_be_interrupted_is_not() -> None:
    with started(runner(WAITS, "keep"), stderr=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        read_until(child.stdout.fileno(), b"READY\n")
        child.send_signal(signal.SIGINT)
        read_until(child.stderr.fileno(), b"the workload goes on")
        assert child.poll() is None
        child.send_signal(signal.SIGINT)
        assert child.communicate(timeout=30)[0] == b"ENDED 143 True\n"


def test_a_termination_is_passed_on() -> None:
    with started(runner(WAITS)) as child:
        assert child.stdout is not None
        read_until(child.stdout.fileno(), b"READY\n")
        child.send_signal(signal.SIGTERM)
        assert child.communicate(timeout=30)[0] == b"ENDED 143 False\n"


def test_a_signal_for_a_workload_that_never_begins_ends_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signals, "PATIENCE", 0.3)
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM)).start()
    command = (sys.executable, "-c", "import time; time.sleep(60)")
    ended = process.run_workload(Launch(command, workload=lambda _: None))
    assert (ended.exit_code, ended.signals, ended.cut, ended.died_of) == (143, ("SIGTERM",), True, None)
    assert ended.wall_ns > 0.4e9


def test_a_signal_that_a_workload_handles_is_not_what_it_died_of(tmp_path: Path) -> None:
    own = "import signal, time; signal.signal(10, lambda *_: print('HANDLED', flush=True)); "
    for code, died_of in ((own, None), ("import time; ", 10)):
        script = f"{code}open({str(tmp_path / 'up')!r}, 'w').close(); time.sleep(1)"
        wraps = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {script!r}])"
        up, found = tmp_path / "up", list[int]()

        def workload(command: int, up: Path = up, found: list[int] = found) -> list[int] | None:
            children = Path(f"/proc/{command}/task/{command}/children").read_text().split()
            found[:] = map(int, children)
            return found if up.exists() and found else None

        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        ended = process.run_workload(Launch((sys.executable, "-c", wraps), workload=workload))
        assert (ended.exit_code, ended.signals, ended.cut, ended.died_of) == (0, ("SIGUSR1",), False, died_of)
        up.unlink()


def test_handlers_are_restored() -> None:
    before = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    process.run_workload(python("pass"))
    assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == before


def test_progress_tells_the_window_and_the_step_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    steps = tmp_path / "steps.csv"
    progress = process.Progress(steps, every_s=0.0)
    progress()
    assert capsys.readouterr().err == ""
    steps.write_text("step,start_ns,kind\n0,1000000000,warm-up\n")
    progress()
    # Two steps from 1.0 s to 2.3 s, then four from 2.3 s to 4.0 s; a line that is half written waits.
    steps.write_text(steps.read_text() + "1,2000000000,warm-up\n2,2300000000,warm-up\n4,3000000000,prof")
    progress()
    with steps.open("a") as file:
        file.write("iled\n6,4000000000,after\n")
    progress()
    lines = [line.removeprefix("\r\x1b[K") for line in capsys.readouterr().err.split("\n")]
    assert lines[0] == "tcprobe: step 2, 0.65 s a step"
    assert lines[1:] == ["tcprobe: step 6, 0.425 s a step, profiled", ""]


def test_progress_is_silent_between_two_due_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    steps = tmp_path / "steps.csv"
    steps.write_text("step,start_ns,kind\n0,0,warm-up\n1,10,warm-up\n")
    progress = process.Progress(steps, every_s=3600)
    progress()
    assert capsys.readouterr().err == ""
    with steps.open("a") as file:
        file.write("2,20,profiled\n")
    progress()
    assert capsys.readouterr().err == "\r\x1b[Ktcprobe: step 2, 1e-08 s a step, profiling\n"


def test_progress_gives_no_step_time_among_which_the_process_was_stopped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = tmp_path / "steps.csv"
    steps.write_text("step,start_ns,kind\n0,0,after\n1,1000,after\n")
    progress = process.Progress(steps, every_s=0.0)
    progress()
    (tmp_path / "probe.json").write_text('{"pauses": [{"start_ns": 1500, "stop_ns": 8000}, 7, {"stop_ns": "x"}]}')
    for rows in ("2,9000,after\n", "3,10000,after\n"):
        with steps.open("a") as file:
            file.write(rows)
        progress()
    lines = [line.removeprefix("\r\x1b[Ktcprobe: ") for line in capsys.readouterr().err.split("\n")]
    assert lines == ["step 1, 1e-06 s a step, profiled", "step 2, profiled", "step 3, 1e-06 s a step, profiled", ""]


def test_progress_follows_a_file_that_is_written_anew(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    steps = tmp_path / "steps.csv"
    steps.write_text("step,start_ns,kind\n0,0,warm-up\n1,100,warm-up\n2,200,warm-up\n3,300,warm-up\n")
    progress = process.Progress(steps, every_s=3600)
    progress()
    (tmp_path / "new").write_text("step,start_ns,kind\n0,0,warm-up\n1,200,profiled\n")
    (tmp_path / "new").replace(steps)
    progress()
    assert capsys.readouterr().err == "\r\x1b[Ktcprobe: step 1, 2e-07 s a step, profiling\n"


def test_a_watcher_that_can_tell_nobody_any_more_is_left_alone() -> None:
    told = []

    def watch() -> None:
        told.append(1)
        raise OSError("the terminal is gone")

    assert process.run_workload(python("import time; time.sleep(0.5)"), watch=watch).exit_code == 0
    assert told == [1]


def test_there_is_no_progress_off_a_terminal(tmp_path: Path) -> None:
    assert process.progress_watcher(tmp_path) is None
