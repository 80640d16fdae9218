"""`tcprobe sweep` as a user runs it: the plan, Ctrl-C and the same command again, the result read again."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tests.support import ROOT, needs_tensorflow

WORK = """
import sys, time
import tcprobe
size = int(sys.argv[-1].rpartition("=")[2])
for step in range(14):
    with tcprobe.step():
        time.sleep(0.002 * size)
    print("loss: %.3f acc: %.3f" % (1 / (step + 1), 1 - 1 / (step + 1)), flush=True)
"""
COMMAND = ("sweep", "--vary", "--size=1,2", "--repeat", "2", "work.py")


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("work.py").write_text(WORK)


def test_ctrl_c_in_the_middle_and_the_same_command_again() -> None:
    """Interrupted in the second run of four, which the first one's folder tells of; then all is whole."""
    started = subprocess.Popen([sys.executable, "-m", "tcprobe", *COMMAND], stdout=-1, stderr=-1, text=True)
    until = time.monotonic() + 60
    while not list(Path().glob("tcprobe-runs/*/c02-*")) and not list(Path().glob("tcprobe-runs/*/.partial-c02*")):
        assert time.monotonic() < until and started.poll() is None
        time.sleep(0.02)
    started.send_signal(signal.SIGINT)
    out, err = started.communicate(timeout=60)
    assert (started.returncode, out) == (130, "")
    assert re.search(r"tcprobe: [12] of 4 runs are whole; the same command goes on with the others", err)
    done = warm.run_tcprobe(*COMMAND)
    assert done.returncode == 0, done.stderr
    assert re.search(r"tcprobe: [12] of them are whole already", done.stderr)
    assert "tcprobe: run 4 of 4: size=2, about " in done.stderr and "loss: 1.000" in done.stderr
    (folder,) = Path("tcprobe-runs").iterdir()
    assert f"tcprobe: next: tcprobe report {folder}" in done.stderr
    screen = done.stdout.partition("\n\nCombinations")[0].splitlines()
    assert screen[0] == "work: 2 combinations of size, 2 runs each"
    assert len(screen) <= 22 and max(map(len, screen)) <= 80
    assert any(line.startswith("size  step time") for line in screen)
    assert any(line.startswith("logged  size  curve") for line in screen)
    assert "█▄▃▂▂" in done.stdout and "size=" in done.stdout
    for verb in ("report", "compare"):
        again = warm.run_tcprobe(verb, folder)
        assert (again.returncode, again.stdout) == (0, done.stdout)
    assert warm.run_tcprobe("report").stdout == done.stdout  # it is the last run
    assert warm.run_tcprobe("report", "tcprobe-runs").stdout.splitlines()[1].split()[::4] == [str(folder), "sweep"]
    given = json.loads(warm.run_tcprobe("report", folder, "--json").stdout)
    assert [row["setting.size"] for row in given["combinations"]] == ["1", "2"]
    assert 0.2 < given["combinations"][1]["times_as_fast"] < 1.0
    assert {run["state"] for run in given["runs"]} == {"whole"}
    assert warm.run_tcprobe("report", folder, "-o", "tables/").returncode == 0
    assert sorted(path.name for path in Path("tables").iterdir()) == [
        *("changes.csv", "combinations.csv", "losses.csv", "runs.csv", "strays.csv"),
    ]
    assert len(Path("tables/losses.csv").read_text().splitlines()) == 1 + 2 * 4 * 14
    refused = warm.run_tcprobe("report", folder, "--by", "kernel")
    assert refused.returncode == 2 and "is a sweep, which has no --by" in refused.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--vary", "--size="), "error: --vary --size: an empty list"),
        (("--vary", "--size=1,2", "--limit", "0"), "--limit"),
        (("--vary", "--size=1,2", "--profiler", "tensorflow", "--key-node", "X"), "--dlprof-args are for DLProf"),
        (("--vary", "--size=1,2", "--iter-start", "9", "--iter-stop", "3"), "--iter-stop 3 comes before"),
        (("--vray", "--size=1,2"), "error: no such option: --vray"),
        ((), "error: nothing is varied"),
    ],
)
def test_what_makes_no_sense_leaves_nothing(words: tuple[str, ...], said: str) -> None:
    done = warm.run_tcprobe("sweep", *words, "work.py")
    assert (done.returncode, done.stdout) == (2, "")
    assert said in " ".join(done.stderr.split()) and "Traceback" not in done.stderr
    assert [path.name for path in Path().iterdir()] == ["work.py"]


def documented() -> list[str]:
    """Return the words of the sweep that the guide has for a tutorial's measurements."""
    page = (ROOT / "docs/sweep.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"^tcprobe (sweep .*--loss-scale.* train_gan .*)$", page, re.MULTILINE)
    return shlex.split(line)


def test_the_plan_of_the_measurements() -> None:
    done = warm.run_tcprobe(*documented()[:1], "--dry-run", *documented()[1:])
    assert done.stderr.startswith("15 runs: 5 combinations of precision, sizes and loss-scale; 7 left out by --exclude")
    assert [line.split()[1:] for line in done.stdout.splitlines()[1:]] == [
        ["tf32", "on", "good", "none", "3"],
        ["float32", "on", "good", "none", "3"],
        ["mixed_float16", "on", "good", "none", "3"],
        ["mixed_float16", "on", "good", "dynamic", "3"],
        ["mixed_float16", "on", "bad", "dynamic", "3"],
    ]
    planned = json.loads(warm.run_tcprobe(*documented()[:1], "--dry-run", "--json", *documented()[1:]).stdout)["plan"]
    assert planned["runs"][5] == {"folder": "c01-r2-tf32-on-good-none", "combination": 1, "repeat": 2}


STAND_IN = """
import sys
sys.path.insert(0, {workloads!r})
import tcprobe, train_gan
args = train_gan.parse_args()
for step in range(args.steps):
    with tcprobe.step():
        pass
    print("(0, %d), G Loss: %.3f, D Loss: %.3f, step_time: 0.1, throughput: 640 img/s." % (step, 1 / (step + 1), 0.7))
"""


def swept(words: list[str]) -> dict[str, Any]:
    done = warm.run_tcprobe(*words, timeout=1800)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_the_measurements_with_the_arguments_of_the_real_script() -> None:
    """The script takes the real one's arguments and logs its lines; it has no TensorFlow, whose start takes seconds."""
    Path("train_gan.py").write_text(STAND_IN.format(workloads=str(ROOT / "workloads")))
    words = documented()
    options = [*words[1 : words.index("--repeat")], "--output", "out"]
    given = swept(["sweep", *options, "--json", "train_gan.py", "--steps", "10"])
    assert [run["state"] for run in given["runs"]] == ["whole"] * 5
    assert {row["name"] for row in given["losses"]} == {"g_loss", "d_loss"} and given["strays"] == []


@pytest.mark.long
@pytest.mark.tensorflow
@needs_tensorflow
def test_the_measurements_on_the_cpu() -> None:
    """Without XLA, which takes minutes to compile float16 convolutions for a CPU."""
    words = documented()
    options = ["off" if word == "on" else word for word in words[1 : words.index("--repeat")]]
    given = swept(["sweep", *options, "--json", "train_gan", "--steps", "3", "--batch-size", "8"])
    assert [run["state"] for run in given["runs"]] == ["whole"] * 5
    assert given["gpu_used"] is False and given["verdict"][-1].startswith("No GPU ran")
    assert all(row["predicted_mid_ns"] and row["tc_kernel_time_pct"] is None for row in given["combinations"])
