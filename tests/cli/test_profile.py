"""`tcprobe profile` as a user runs it: what it refuses, and how workloads of every mood end."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from tcprobe.cli.profile import _say_where
from tcprobe.flows.profile import ProfileOutcome
from tcprobe.readers.open import open_profile
from tests import warm
from tests.readers.nsys.made import small
from tests.support import ROOT

Done = subprocess.CompletedProcess[str]


def command(*words: str | Path) -> list[str]:
    return [sys.executable, "-m", "tcprobe", *map(str, words)]


def environment(**changed: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), **changed}


def tcprobe(folder: Path, *words: str | Path, stdin: str = "", **changed: str) -> Done:
    python = sys.executable if any(name.startswith("PYTHON") for name in changed) else warm.tcprobe()
    return subprocess.run(
        [python, *command(*words)[1:]],
        cwd=folder,
        env=environment(**changed),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=120,
    )


def profile(folder: Path, code: str, *options: str, args: tuple[str, ...] = (), **changed: str) -> Done:
    """Profile a script of this text in `folder`."""
    (folder / "work.py").write_text(textwrap.dedent(code))
    return tcprobe(folder, "profile", *options, "work.py", *args, **changed)


def the_run(folder: Path) -> Path:
    """Return the one run folder, and check that nothing temporary is left."""
    (found,) = (folder / "tcprobe-runs").iterdir()
    assert found.name.startswith("work-")
    return found


def record(folder: Path) -> dict[str, object]:
    return dict(json.loads((folder / "run.json").read_text()))


def refused(done: Done, *said: str) -> None:
    """Check exit code 2, an error line and at most a hint, and no traceback."""
    lines = done.stderr.splitlines()
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert [line for line in lines if line.startswith("tcprobe: error: ")] == lines[:1]
    assert len(lines) <= 2
    for words in said:
        assert words in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), ("no workload given", "train_gan")),
        (("tran_gan",), ("no workload called 'tran_gan'", "did you mean train_gan?")),
        (("wrk.py",), ("wrk.py: no such script", "did you mean work.py?")),
        (("sub/none.py",), ("sub/none.py: no such script",)),
        ((".",), ("is a folder, not a script",)),
        (("-m",), ("-m needs the name of a module",)),
        (("--precison", "tf32", "work.py"), ("no such option: --precison", "did you mean --precision?")),
        (("--epochs=3", "work.py"), ("no such option: --epochs", "stand after its name")),
        (("--device", "0", "--itre-start", "3", "work.py"), ("no such option: --itre-start", "--iter-start?")),
        (("--metric-pattern", "(", "work.py"), ("--metric-pattern '('", "no regular expression")),
        (("--metric-pattern", "(a+)+b", "work.py"), ("'(a+)+b': a repeat without end holds another", "[\\w.]+ for")),
        (("--target-gpu", "rtx9999x", "work.py"), ("no GPU called 'rtx9999x'",)),
        (("--iter-start", "9", "--iter-stop", "3", "work.py"), ("--iter-stop 3 comes before --iter-start 9",)),
        (("--python", "/nowhere/python", "work.py"), ("/nowhere/python: no such program",)),
        (("--launcher", "no-such-launcher", "work.py"), ("no-such-launcher: no such program",)),
        (("--launcher", "'a", "work.py"), ("--launcher", "No closing quotation")),
        (
            ("--profiler", "tensorflow", "--key-node", "X", "work.py"),
            ("--key-node, --mode, --delay, --duration and --dlprof-args are for DLProf",),
        ),
        (("--output", ".", "work.py"), (".: exists already", "--force")),
        (("--output", ".", "--force", "work.py"), ("no run folder of tcprobe",)),
        (("-o", "x.bogus", "work.py"), ("tells no format",)),
        (("-o", "none/x.json", "work.py"), ("there is no folder none",)),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_written(
    tmp_path: Path, words: tuple[str, ...], said: tuple[str, ...]
) -> None:
    (tmp_path / "work.py").write_text("open('ran', 'w')")
    refused(tcprobe(tmp_path, "profile", *words), *said)
    assert [p.name for p in tmp_path.iterdir()] == ["work.py"]


@pytest.mark.parametrize("value", [("--precision", "fp16"), ("--iter-start", "-1"), ("--profiler", "nvprof")])
def test_a_value_that_is_none_is_refused(tmp_path: Path, value: tuple[str, str]) -> None:
    done = tcprobe(tmp_path, "profile", *value, "work.py")
    assert done.returncode == 2
    assert value[0] in done.stderr
    assert "Traceback" not in done.stderr


def test_a_script_without_tensorflow_runs_and_is_told_what_is_missing(tmp_path: Path) -> None:
    done = profile(tmp_path, "import sys; print('args', sys.argv)", args=("--precision", "x", "-o", "y"))
    home = the_run(tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("args ['work.py', '--precision', 'x', '-o', 'y']\n")
    assert "did not import TensorFlow" in done.stdout
    assert "profile it with --profiler nsys (Nsight Systems)" in done.stdout
    assert done.stderr.splitlines()[-1] == f"tcprobe: run folder kept: tcprobe-runs/{home.name}"
    assert (home / "tables" / "summary.csv").is_file()
    assert record(home)["exit_code"] == 0
    assert record(home)["command"] == ["work.py", "--precision", "x", "-o", "y"]


MOODS = [
    ("raise ValueError('no good')", 1, "failed with exit code 1"),
    ("raise SystemExit(7)", 7, "failed with exit code 7"),
    ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 137, "ended by SIGKILL"),
    ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", 143, "ended by SIGTERM"),
    ("import os; os.abort()", 134, "ended by SIGABRT"),
]


@pytest.mark.parametrize(("code", "expected", "said"), MOODS)
def test_a_workload_that_fails_passes_its_code_on_and_leaves_a_readable_run(
    tmp_path: Path, code: str, expected: int, said: str
) -> None:
    done = profile(tmp_path, code)
    home = the_run(tmp_path)
    assert done.returncode == expected
    assert (record(home)["exit_code"], record(home)["partial"]) == (expected, True)
    assert f"{said}, and nothing was recorded" in done.stderr
    assert done.stdout == ""
    again = tcprobe(tmp_path, "report", home)
    assert (again.returncode, said in again.stdout) == (0, True)


def test_a_workload_that_fails_late_is_reported_as_far_as_it_went(tmp_path: Path) -> None:
    done = profile(tmp_path, "print('loss: 0.5'); raise SystemExit(7)")
    assert done.returncode == 7
    assert "failed with exit code 7" in done.stdout
    assert "Logged by the workload" in done.stdout


def test_a_traceback_is_the_scripts_own(tmp_path: Path) -> None:
    code = "def f():\n    raise ValueError('no good')\nf()\n"
    done = profile(tmp_path, code)
    start = done.stderr.index("Traceback")
    plain = subprocess.run([sys.executable, "work.py"], cwd=tmp_path, capture_output=True, text=True)
    assert plain.stderr.endswith("ValueError: no good\n")
    assert done.stderr[start:].startswith(plain.stderr[plain.stderr.index("Traceback") :])


def test_megabytes_of_output_come_through(tmp_path: Path) -> None:
    done = profile(tmp_path, "import sys\nfor i in range(40_000): print('x' * 100)\nsys.stderr.write('y' * 2_000_000)")
    assert done.returncode == 0
    assert done.stdout.startswith(("x" * 100 + "\n") * 40_000)
    assert "y" * 2_000_000 in done.stderr


def test_a_script_that_reads_its_input_gets_it(tmp_path: Path) -> None:
    (tmp_path / "work.py").write_text("print(sum(int(x) for x in open(0)))")
    done = tcprobe(tmp_path, "profile", "work.py", stdin="1\n2\n39\n")
    assert done.stdout.startswith("42\n")


def test_a_script_may_start_processes(tmp_path: Path) -> None:
    code = """
        import multiprocessing, sys
        def square(x): return x * x
        if __name__ == "__main__":
            for how in ("spawn", "fork"):
                with multiprocessing.get_context(how).Pool(2) as pool:
                    print(pool.map(square, range(4)))
    """
    done = profile(tmp_path, code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("[0, 1, 4, 9]\n[0, 1, 4, 9]\n")
    the_run(tmp_path)


def test_a_module_runs_as_a_module(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "train.py").write_text("import sys; print(__name__, __package__, sys.argv[1:])")
    done = tcprobe(tmp_path, "profile", "--output", "run", "-m", "package.train", "--xla", "3")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("__main__ package ['--xla', '3']\n")
    assert record(tmp_path / "run")["workload"] == "-m package.train"


def test_an_option_of_ours_that_the_workload_refuses_gets_a_hint(tmp_path: Path) -> None:
    code = "import argparse; argparse.ArgumentParser().parse_args()"
    done = profile(tmp_path, code, args=("--iter-start", "3"))
    assert done.returncode == 2
    assert "unrecognized arguments: --iter-start 3" in done.stderr
    assert done.stderr.splitlines()[-1] == (
        "hint: --iter-start: tcprobe's options stand before the workload, all after it is its own"
    )


def test_json_has_standard_output_to_itself(tmp_path: Path) -> None:
    done = profile(tmp_path, "print('mine')", "--json")
    report = json.loads(done.stdout)
    assert report["metadata"]["run"]["workload"] == "work.py"
    assert "mine\n" in done.stderr


def test_json_in_a_file_leaves_standard_output_alone(tmp_path: Path) -> None:
    done = profile(tmp_path, "print('mine')", "--json", "-o", "out.json")
    assert done.stdout.startswith("mine\n")
    assert json.loads((tmp_path / "out.json").read_text())["schema"] == 1
    assert "Wrote out.json" in done.stderr


def test_json_tells_a_refusal(tmp_path: Path) -> None:
    done = tcprobe(tmp_path, "profile", "--json", "nothing")
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["code"] == "E101"


def test_an_earlier_run_is_replaced_by_force_alone(tmp_path: Path) -> None:
    assert profile(tmp_path, "pass", "--output", "run").returncode == 0
    first = record(tmp_path / "run")
    refused(profile(tmp_path, "open('ran', 'w')", "--output", "run"), "run: exists already")
    assert not (tmp_path / "ran").exists()
    assert profile(tmp_path, "raise SystemExit(3)", "--output", "run", "--force").returncode == 3
    assert (first["exit_code"], record(tmp_path / "run")["exit_code"]) == (0, 3)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run", "work.py"]


def test_the_environment_is_set_and_recorded(tmp_path: Path) -> None:
    code = "import os; print(os.environ['CUDA_VISIBLE_DEVICES'], os.environ['NVIDIA_TF32_OVERRIDE'])"
    secret = {"TCPROBE_TOKEN": "hunter2", "CUDA_VISIBLE_DEVICES": "5,6"}
    done = profile(tmp_path, code, "--precision", "float32", **secret)
    assert done.stdout.startswith("5 0\n")
    home = the_run(tmp_path)
    kept = record(home)["environment"]
    assert isinstance(kept, dict)
    assert (kept["CUDA_VISIBLE_DEVICES"], kept["NVIDIA_TF32_OVERRIDE"]) == ("5", "0")
    assert not [p for p in home.rglob("*") if p.is_file() and b"hunter2" in p.read_bytes()]


WAITS = "import time\nprint('READY', flush=True)\ntime.sleep(60)\n"


def wait_for(descriptor: int, word: bytes, seconds: float = 60) -> bytes:
    text, end = b"", time.monotonic() + seconds
    while word not in text and time.monotonic() < end:
        if select.select([descriptor], [], [], 0.2)[0]:
            try:
                text += os.read(descriptor, 65536)
            except OSError:
                break
    assert word in text, text.decode(errors="replace")
    return text


def test_ctrl_c_ends_the_workload_and_keeps_the_run(tmp_path: Path) -> None:
    (tmp_path / "work.py").write_text(WAITS)
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        os.execve(sys.executable, command("profile", "work.py"), environment())
    wait_for(terminal, b"READY")
    os.write(terminal, b"\x03")
    text = wait_for(terminal, b"run folder kept")
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 130
    assert text.count(b"KeyboardInterrupt") == 1
    home = the_run(tmp_path)
    assert (record(home)["interrupted"], record(home)["partial"], record(home)["exit_code"]) == (True, True, 130)
    assert "was interrupted" in tcprobe(tmp_path, "report", home).stdout


def test_a_parent_that_is_killed_leaves_a_folder_that_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "work.py").write_text(WAITS)
    child = subprocess.Popen(
        command("profile", "work.py"), cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, start_new_session=True
    )
    assert child.stdout is not None
    wait_for(child.stdout.fileno(), b"READY")
    (home,) = (tmp_path / "tcprobe-runs").iterdir()
    workload = json.loads((home / "probe" / "probe.json").read_text())["pid"]
    child.kill()
    os.kill(workload, signal.SIGKILL)
    child.communicate()
    assert home.name.startswith(".partial-work-")
    done = tcprobe(tmp_path, "report", home)
    assert done.returncode == 0, done.stderr
    assert "how the workload ended was not recorded" in done.stdout


def test_workloads_are_listed_with_a_line_each() -> None:
    done = subprocess.run(command("workloads"), capture_output=True, text=True, check=True)
    names = [line.split()[0] for line in done.stdout.splitlines()]
    assert names == sorted(p.stem for p in (ROOT / "workloads").glob("*.py") if p.stem != "__init__")
    assert all(len(line.split()) > 3 for line in done.stdout.splitlines())


def test_a_packaged_workload_needs_tensorflow(tmp_path: Path) -> None:
    bare = tmp_path / "python"
    said = '{"python": "3.11.0", "tensorflow": null, "keras": null, "present": false}'
    bare.write_text(f"#!/bin/sh\necho '{said}'\n")
    bare.chmod(0o755)
    refused(
        tcprobe(tmp_path, "profile", "--python", bare, "train_gan"),
        "has no TensorFlow, which train_gan needs",
        "--python",
    )


def test_the_second_run_is_named_where_there_is_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = ProfileOutcome(tmp_path, 0, False, open_profile(small().write(tmp_path / "a.sqlite")))
    _say_where(outcome)
    assert "with-xspace" not in capsys.readouterr().err
    (tmp_path / "with-xspace").mkdir()
    (tmp_path / "with-xspace/run.json").write_text("{}")
    _say_where(outcome)
    assert capsys.readouterr().err.endswith(f"tcprobe report {tmp_path}/with-xspace\n")
