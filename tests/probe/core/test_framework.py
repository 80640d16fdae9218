"""A second framework of a few lines, driven through the probe's core, which names none."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import ROOT

TOY = ROOT / "tests/probe/core/toy.py"
NEUTRAL = ("core", "script", "probe.py", "api.py", "config.py", "constants.py")
TOYFLOW = """
on_layer = print
profile = None
def train(part, layers):
    for layer in layers: on_layer(part + "/" + layer)
"""
GAN = """
import toyflow
for step in range(20):
    toyflow.train("critic", ["dense"])
    toyflow.train("critic", ["dense"])
    toyflow.train("generator", ["conv"] if step < 10 else ["conv", "late"])
"""


def run(folder: Path, script: str, *window: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run a script under the probe with the toy; return what the toy was told, and probe.json."""
    (folder / "toyflow.py").write_text(TOYFLOW)
    (folder / "train.py").write_text(script)
    command = [sys.executable, str(TOY), str(folder), str(folder / "train.py"), *window]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1]), json.loads((folder / "probe/probe.json").read_text())


def test_a_second_framework_needs_nothing_of_the_core_changed(tmp_path: Path) -> None:
    toy, seen = run(tmp_path, GAN, "3", "6")
    assert (seen["steps"]["count"], seen["steps"]["period"], seen["steps"]["basis"]) == (20, 3, "period")
    assert [part["name"] for part in seen["parts"]] == ["toyflow.critic", "toyflow.generator"]
    assert (seen["window"]["first_step"], seen["window"]["last_step"]) == (3, 6)
    assert seen["window"]["session"] == {"first_step": 3, "last_step": 6}
    assert (toy["profiler"], toy["layers"]) == (["start", "stop"], ["open", "close", "stop"])
    assert (seen["toyflow"], seen["gpu_used"], seen["peak_gpu_memory_bytes"]) == ("1.0", True, 7)
    assert seen["finished"]
    assert [gap["hook"] for gap in seen["gaps"]] == []


def test_layers_are_recorded_until_the_window_is_over(tmp_path: Path) -> None:
    run(tmp_path, GAN, "3", "6")
    graph = json.loads((tmp_path / "probe/graph.json").read_text())
    assert graph == {"layers": ["critic/dense", "generator/conv"]}
    (tmp_path / "long").mkdir()
    run(tmp_path / "long", GAN, "3", "15")
    assert json.loads((tmp_path / "long/probe/graph.json").read_text())["layers"][-1] == "generator/late"


def test_a_run_that_is_killed_after_its_window_has_its_graph(tmp_path: Path) -> None:
    run(
        tmp_path,
        GAN + f"\n__import__('shutil').copy({str(tmp_path / 'probe/graph.json')!r}, {str(tmp_path)!r})",
        "3",
        "6",
    )
    then = json.loads((tmp_path / "graph.json").read_text())
    assert then == {"layers": ["critic/dense", "generator/conv"]}


def test_what_cannot_be_executed_ends_no_run(tmp_path: Path) -> None:
    """A search of PATH tries what it finds, as a script does that has something to fall back on."""
    (tmp_path / "tool").write_text("no program")
    fails = f"import os\ntry: os.execv({str(tmp_path / 'tool')!r}, ['tool'])\nexcept PermissionError: pass\n"
    _, seen = run(tmp_path, fails + GAN, "3", "6")
    assert (seen["steps"]["count"], [note["code"] for note in seen["notes"]]) == (20, [])


def test_calls_are_only_noted_once_the_window_is_over(tmp_path: Path) -> None:
    toy, seen = run(tmp_path, GAN, "3", "6")
    # The first call of step 7 finds the window full; the end of the run ends the counting.
    assert toy["paces"] == [[7 * 3 + 1, True], [60, False]]
    assert seen["steps"]["count"] == 20


SETTLES = """
import time, toyflow
for step in range(30):
    time.sleep(0.02 if step < 3 else 0.004)
    toyflow.train("net", ["dense"])
"""


def test_the_window_begins_with_its_first_step_and_not_with_the_session(tmp_path: Path) -> None:
    toy, seen = run(tmp_path, SETTLES)
    window = seen["window"]
    assert window["session"]["first_step"] < window["first_step"]
    # Told as the session opens, and with the call that begins the first step of the window.
    assert toy["began"] == [window["session"]["first_step"] + 1, window["first_step"] + 1]
    assert toy["closed"] == ["close"]
    began, ended = window["wall_s"]
    assert ended - began < (window["stop_ns"] - window["start_ns"]) / 1e9 - 0.002


OWN = """
import toyflow
toyflow.profile(True)
for step in range(30): toyflow.train("net", ["dense"])
toyflow.profile(False, *PATHS)
"""


@pytest.mark.parametrize("size", [None, 10, 200_000_001])
def test_profile_that_the_script_took_itself(tmp_path: Path, size: int | None) -> None:
    own = tmp_path / "own.xplane.pb"
    if size is not None:
        with own.open("wb") as file:
            file.truncate(size)
    toy, seen = run(tmp_path, OWN.replace("PATHS", repr([str(own)] if size else [])))
    (note,) = seen["notes"]
    if size == 10:
        assert toy["profiler"] == [f"adopt {own}"]
        assert toy["closed"] == ["drop", "discard"]  # what the framework counted is of no window of ours
        assert (seen["window"]["last_step"], note["code"]) == (29, "script-profile")
        assert seen["window"]["first_step"] > 0
        assert seen["window"]["session"] == {"first_step": 0, "last_step": 29}
    else:
        large = f"its profile of 200 MB is larger than the 200 MB that are copied: {own}"
        why = large if size else "its session left no *.xplane.pb file"
        assert (toy["profiler"], seen["window"]) == ([], None)
        assert note["message"] == "the script profiled itself, and " + why


END_OF_DATA = """
import toyflow
def at_the_end(): yield [][0]
for step in range(3):
    toyflow.train("net", ["dense"])
    try: toyflow.train("net", at_the_end())
    except IndexError: pass
for step in range(27): toyflow.train("net", ["dense"])
"""


def test_what_the_session_holds_of_a_call_that_was_no_step_is_of_the_step_before(tmp_path: Path) -> None:
    """The session opens with the second call, which finds no data."""
    _, seen = run(tmp_path, END_OF_DATA)
    assert seen["steps"]["count"] == 30
    assert seen["window"]["session"]["first_step"] == 0


def test_steps_that_were_asked_for_and_not_reached(tmp_path: Path) -> None:
    _, seen = run(tmp_path, GAN, "25", "30")
    why = "the run ended after 20 steps, and step 25 was the first to profile"
    assert [(n["code"], n["message"]) for n in seen["notes"]] == [("no-window", why)]


def test_a_run_without_the_framework_says_so(tmp_path: Path) -> None:
    _, seen = run(tmp_path, "print('no framework')")
    assert [(n["code"], n["message"]) for n in seen["notes"]] == [("no-toyflow", "the workload never imported ToyFlow")]


@pytest.mark.parametrize("part", NEUTRAL)
def test_the_core_names_no_framework(part: str) -> None:
    place = ROOT / "tcprobe/probe" / part
    named = re.compile(r"tensorflow|keras|torch|\btf\b|tf\.", re.IGNORECASE)
    found = [
        f"{path.name}:{number} {line.strip()}"
        for path in ([place] if place.is_file() else sorted(place.rglob("*.py")))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if named.search(line)
    ]
    assert not found
