"""Workloads that do something to their own process: each ends as it would alone, and what can be recorded is."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.faults.kept import check_kept, left
from tests.faults.running import STEPS, Tcprobe
from tests.faults.table import Fault, Kept, cases

TRAINS = STEPS.format(steps=20, seconds=0.001)
SILENT = TRAINS.replace("print(", "str(").replace(", flush=True", "")
CODES = {
    "forks": (f"import os\nchild = os.fork()\n{TRAINS}\nif child: os.waitpid(child, 0)\nelse: os._exit(7)", 0),
    "becomes-a-daemon": (f"import os\nif os.fork(): os._exit(0)\nos.setsid()\n{TRAINS}", 0),
    "execs": (f"{TRAINS}\nimport os, sys\nos.execvp(sys.executable, [sys.executable, '-c', 'raise SystemExit(3)'])", 3),
    "exits-in-a-thread": (
        f"import sys, threading\nthread = threading.Thread(target=lambda: sys.exit(5))\nthread.start()\n{TRAINS}",
        0,
    ),
    "closes-its-streams": (f"import os\nos.closerange(0, 100)\n{SILENT}", 0),
    "moves": (f"import os\nos.makedirs('gone')\nos.chdir('gone')\nos.rmdir('../gone')\n{TRAINS}", 0),
    "forgets-its-environment": (f"import os\nos.environ.clear()\n{TRAINS}", 0),
    "clock-set-back": (
        f"import time\nreal = time.time\ntime.time = lambda: real() - 4e8\ntime.time_ns = lambda: 5\n{TRAINS}",
        0,
    ),
    "removes-what-the-probe-wrote": (
        f"{TRAINS}\nimport glob, shutil, time\ntime.sleep(0.6)\n"
        "for folder in glob.glob('tcprobe-runs/.p*/probe'): shutil.rmtree(folder)",
        0,
    ),
    "exits-with-a-large-code": (f"{TRAINS}\nraise SystemExit(200)", 200),
}
"""The script of a fault, and the exit code that it ends with."""
SAID = {
    "becomes-a-daemon": ("forked", "what its children did was not recorded"),
    "execs": ("replaced", "the workload replaced itself by "),
    "removes-what-the-probe-wrote": ("metrics-lost", "what was logged before is lost"),
    "exits-with-a-large-code": ("partial-run", "the workload failed with exit code 200"),
}
"""The note that a report has of a fault: its code, and words of it."""


@pytest.mark.parametrize("fault", cases("test_workloads.test_a_workload_that_changes_its_process"))
def test_a_workload_that_changes_its_process(fault: Fault, tmp_path: Path) -> None:
    script, code = CODES[fault.name]
    run = Tcprobe(tmp_path, script)
    assert run.wait() == code, run.printed
    found = left(run.folder())
    check_kept(found, fault.kept, 0 if fault.kept is Kept.FIRST_PROCESS else 20)
    said, words = SAID.get(fault.name, ("", ""))
    assert words in found.said.get(said, "")
    assert [code for code in found.said if code not in (said, "no-tensorflow", "partial-run")] == []
    assert ("no-tensorflow" in found.said) is (fault.name != "execs")  # what the other program imports is not known
    assert "tcprobe: the probe" not in run.printed and "Traceback" not in run.printed


@pytest.mark.parametrize("fault", cases("test_workloads.test_a_child_that_outlives_its_workload"))
def test_a_child_that_outlives_its_workload(fault: Fault, tmp_path: Path) -> None:
    child = "import subprocess, sys\nsubprocess.Popen([sys.executable, '-Sc', 'import time; time.sleep(600)'])\n"
    began = time.monotonic()
    run = Tcprobe(tmp_path, child + TRAINS)
    assert run.wait() == 0 and time.monotonic() - began < 300
    assert len(run.processes()) == 1
    run.kill()
    check_kept(left(run.folder()), fault.kept, 20)
