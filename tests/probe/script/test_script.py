"""The workload runs as Python itself would run it: compared with Python itself, without TensorFlow."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.probe.running import Run, prepare, run

LOOK = """
import json, os, pickle, sys, inspect
class Thing: pass
m = sys.modules["__main__"]
print(sorted(k for k in vars(m) if k.startswith("__")), m.__file__, m.__spec__, m.__doc__, sys.argv, sys.path[0])
print(type(pickle.loads(pickle.dumps(Thing()))), inspect.getsource(Thing).strip(), sys.stdin.readline().strip())
print(sys.stdout.isatty(), sys.stdout, sys.excepthook, sys.flags)
"""
ENDINGS = {
    "nothing": "pass",
    "exit 7": "import sys; sys.exit(7)",
    "exit with a message": "import sys; sys.exit('bye')",
    "_exit": "import os, sys; sys.stdout.flush(); os._exit(9)",
    "exception": "def f(x):\n    return 1 / x\n\nf(0)",
    "chained": "try:\n    {}['a']\nexcept KeyError as error:\n    raise ValueError('b') from error",
    "printed": "import traceback\ntry:\n    1 / 0\nexcept ZeroDivisionError:\n    traceback.print_exc()",
    "logged": "import logging\ntry:\n    1 / 0\nexcept ZeroDivisionError:\n    logging.exception('so')",
    "stacks": "import inspect, traceback as t\nt.print_stack()\nprint(inspect.stack()[1:], t.format_stack())",
    "warnings": "import warnings\ndef f(n):\n    warnings.warn(str(n), stacklevel=n)\nfor n in range(4):\n    f(n)",
    "own hook": "import sys, traceback\nsys.excepthook = lambda t, v, b: print(traceback.format_tb(b))\n1 / 0",
    "interrupt": "raise KeyboardInterrupt",
    "SIGINT": "import os, signal; os.kill(os.getpid(), signal.SIGINT)",
    "SIGTERM": "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    "SIGKILL": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "atexit": "import atexit; atexit.register(print, 'last'); 1 / 0",
    "syntax": "x = = 1",
    "thread": "import threading\ndef f():\n    1 / 0\nt = threading.Thread(target=f)\nt.start()\nt.join()",
}
CHILDREN = """
import multiprocessing, os, sys

def work(queue):
    queue.put([m for m in ("__mp_main__", "tcprobe_running") if m in sys.modules])

if __name__ == "__main__":
    for method in ("fork", "spawn"):
        context = multiprocessing.get_context(method)
        queue = context.Queue()
        child = context.Process(target=work, args=(queue,))
        child.start()
        print(method, "tcprobe_running" in queue.get(), flush=True)
        child.join()
        print(child.exitcode)
    if os.fork() == 0:
        print("loss: 99", flush=True)
        sys.exit(3)
    print(os.waitstatus_to_exitcode(os.wait()[1]))
"""


@pytest.fixture(params=ENDINGS)
def ending(request: pytest.FixtureRequest) -> str:
    return ENDINGS[request.param]


def plain(path: Path, *argv: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(path), *argv], input=stdin, capture_output=True, text=True)


def test_ends_as_it_would(tmp_path: Path, ending: str) -> None:
    probed = run(tmp_path, ending)
    alone = plain(tmp_path / "workload.py")
    assert (probed.code, probed.out, probed.err) == (alone.returncode, alone.stdout, alone.stderr)


def test_sees_what_it_would(tmp_path: Path) -> None:
    probed = run(tmp_path, LOOK, "--a", "b c", stdin="typed\n")
    assert probed.out == plain(tmp_path / "workload.py", "--a", "b c", stdin="typed\n").stdout
    assert probed.err == ""


def test_module_runs_as_with_dash_m(tmp_path: Path) -> None:
    package = tmp_path / "own/deep"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "thing.py").write_text("import sys\nprint(__name__, __package__, sys.argv, sys.path[0])\n1 / 0")
    command = prepare(tmp_path / "run", "module", "deep.thing", ("x",))
    probed = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path / "own")
    alone = subprocess.run(
        [sys.executable, "-m", "deep.thing", "x"], capture_output=True, text=True, cwd=tmp_path / "own"
    )
    assert (probed.returncode, probed.stdout, probed.stderr) == (alone.returncode, alone.stdout, alone.stderr)


def test_children_are_no_runs(tmp_path: Path) -> None:
    probed = run(tmp_path, CHILDREN)
    assert (probed.code, probed.err) == (0, "")
    assert probed.out.split() == ["fork", "True", "0", "spawn", "False", "0", "loss:", "99", "3"]
    assert probed.seen["finished"]
    assert probed.rows("metrics.csv") == []


def test_own_module_stands_before_the_probes_imports(tmp_path: Path) -> None:
    (tmp_path / "bisect.py").write_text("own = True")
    assert run(tmp_path, "import bisect; print(bisect.own)").out == "True\n"


def test_without_tensorflow_it_runs_and_says_so(tmp_path: Path) -> None:
    probed = run(tmp_path, "print('hello')")
    assert probed.out == "hello\n"
    assert [note["code"] for note in probed.seen["notes"]] == ["no-tensorflow"]
    assert probed.seen["window"] is None
    assert probed.seen["tensorflow"] is None


def test_broken_configuration_is_one_line(tmp_path: Path) -> None:
    command = prepare(tmp_path / "run", "script", "x.py")
    Path(command[-1]).write_text("{")
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1


def test_unwritable_folder_costs_the_record_not_the_run(tmp_path: Path) -> None:
    path = tmp_path / "workload.py"
    path.write_text("print('ran')")
    command = prepare(tmp_path / "run", "script", str(path))
    config = json.loads(Path(command[-1]).read_text())
    (tmp_path / "file").write_text("")
    Path(command[-1]).write_text(json.dumps({**config, "out": str(tmp_path / "file/below")}))
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "ran\n")
    assert "could not start" in done.stderr


MARKED = """
import tcprobe, sys, time
print(tcprobe.__name__)
for loss in (0.5, 0.25, 0.125):
    with tcprobe.step():
        pass
    print("loss:", loss, end=" ")
    print("throughput: 10 img/s", flush=True)
    time.sleep(0.001)
"""


@pytest.mark.parametrize("installed", [True, False], ids=["package", "stub"])
def test_script_marks_its_own_steps(tmp_path: Path, installed: bool) -> None:
    hide = "" if installed else "import sys; sys.path[:] = [p for p in sys.path if 'site-packages' not in p]\n"
    hide += "" if installed else "sys.meta_path[:] = [f for f in sys.meta_path if 'editable' not in repr(f).lower()]\n"
    probed: Run = run(tmp_path, hide + MARKED)
    assert probed.code == 0, probed.err
    assert [number for number, _ in probed.steps] == [0, 1, 2]
    assert probed.seen["steps"]["basis"] == "tcprobe.step"
    found = [(row["step"], row["name"], row["value"], row["unit"]) for row in probed.rows("metrics.csv")]
    assert found == [
        (str(n), name, value, unit)
        for n, loss in enumerate(("0.5", "0.25", "0.125"))
        for name, value, unit in (("loss", loss, ""), ("throughput", "10.0", "img/s"))
    ]
