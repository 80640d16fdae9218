"""Ranges of NVTX as a tool hears them, with package nvtx and without it."""

from __future__ import annotations

import csv
import functools
import json
import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from tcprobe.probe.core.gaps import Gaps
from tcprobe.probe.core.ranges import Opened, Ranges
from tests.nvtx import Tool, paths
from tests.probe.core.test_framework import TOY, TOYFLOW
from tests.support import ROOT

LOOP = """
import os, signal, sys, threading, toyflow
def train(steps, *parts):
    for _ in range(steps):
        for part in parts: toyflow.train(part, [])
"""
HIDDEN = "raise ImportError('not this one')"
ENDINGS = {
    "an exception": (1, "train(9, 'd', 'g'); toyflow.train('d', 0)"),
    "an exception that is caught": (
        0,
        "train(9, 'd', 'g')\ntry: toyflow.train('d', 0)\nexcept TypeError: train(1, 'g'); train(2, 'd', 'g')",
    ),
    "an interrupt": (
        -signal.SIGINT,
        "toyflow.on_layer = lambda _: signal.raise_signal(2)\ntrain(9, 'd', 'g'); toyflow.train('d', [''])",
    ),
    "sys.exit": (3, "train(9, 'd', 'g'); sys.exit(3)"),
    "os._exit": (4, "train(9, 'd', 'g'); os._exit(4)"),
    "os._exit in a call": (5, "toyflow.on_layer = lambda _: os._exit(5)\ntrain(9, 'd', 'g'); toyflow.train('d', [''])"),
    "a signal": (-signal.SIGTERM, "train(9, 'd', 'g'); os.kill(os.getpid(), signal.SIGTERM)"),
    "a signal in the window": (-signal.SIGTERM, "train(5, 'd', 'g'); os.kill(os.getpid(), signal.SIGTERM)"),
    "a hangup in the window": (-signal.SIGHUP, "train(5, 'd', 'g'); os.kill(os.getpid(), signal.SIGHUP)"),
    "a fork": (0, "train(9, 'd', 'g')\nif os.fork() == 0: train(3, 'd', 'g')\nelse: os.wait(); train(1, 'd', 'g')"),
    "a fork in a call": (
        0,
        "toyflow.on_layer = lambda _: os.fork() and os.wait()\ntrain(9, 'd', 'g'); toyflow.train('d', [''])",
    ),
    "a thread that trains": (0, "t = threading.Thread(target=train, args=(9, 'd', 'g')); t.start(); t.join()"),
    "another thread": (
        0,
        "train(9, 'd', 'g'); t = threading.Thread(target=train, args=(9, 'd', 'g')); t.start(); t.join()",
    ),
}


def run(
    folder: Path, script: str, environment: dict[str, str], package: bool = False, window: tuple[str, ...] = ("3", "6")
) -> tuple[int, dict[str, Any]]:
    """Run a script under the probe with the toy; return its exit code and probe.json."""
    (folder / "toyflow.py").write_text(TOYFLOW)
    (folder / "train.py").write_text(LOOP + script)
    if not package:
        (folder / "nvtx.py").write_text(HIDDEN)
    command = [sys.executable, str(TOY), str(folder), str(folder / "train.py"), *window]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, env={"PYTHONPATH": str(ROOT), **environment}
    )
    return done.returncode, json.loads((folder / "probe/probe.json").read_text())


@pytest.mark.parametrize("package", [False, True])
def test_calls_until_the_period_is_known_and_then_steps(tmp_path: Path, tool: Tool, package: bool) -> None:
    if package:
        pytest.importorskip("nvtx")
    code, seen = run(tmp_path, "train(5, 'critic', 'critic', 'generator')", tool.environment(), package)
    assert (code, seen["gaps"], seen["nvtx"]) == (0, [], version("nvtx") if package else "ctypes")
    steps = [[step, f"{step}/critic", f"{step}/critic", f"{step}/generator"] for step in ("step 3", "step 4")]
    assert tool.ranges() == ["critic", "critic", "generator"] * 3 + steps[0] + steps[1]
    assert {name for line in tool.log.read_text().splitlines() for name in line.split("\t")[2:3]} == {"tcprobe"}


@pytest.mark.parametrize(
    ("script", "pattern"),
    [
        ("train(20, 'train')", ["train"]),
        ("train(12, *['critic'] * 5, 'generator')", ["critic"] * 5 + ["generator"]),
        ("train(4, 'a'); train(12, 'a', 'b')", ["a", "b"]),
        ("train(12, 'a', 'b'); train(20, 'c')", None),
    ],
)
def test_a_numbered_step_is_a_step(tmp_path: Path, tool: Tool, script: str, pattern: list[str] | None) -> None:
    _, seen = run(tmp_path, script, tool.environment())
    found: dict[int, list[str]] = {}
    for path in tool.ranges():
        step, _, part = path.partition("/")
        if part:
            found[int(step[5:])].append(part)
        elif step.startswith("step "):
            assert int(step[5:]) not in found
            found[int(step[5:])] = []
    assert list(found) == sorted(found)
    assert list(found)[-1] == seen["steps"]["count"] - 1
    with (tmp_path / "probe/steps.csv").open() as file:
        assert set(found) <= {int(row["step"]) for row in csv.DictReader(file)}
    if pattern is not None:
        assert len(found) >= 9
        assert all(calls == pattern for calls in found.values())


def test_a_function_with_the_name_of_a_phase_is_told_from_it(tmp_path: Path, tool: Tool) -> None:
    run(tmp_path, "train(2, 'forward')", tool.environment())
    assert tool.ranges() == ["forward()"] * 2


def test_steps_are_marked_where_nothing_is_profiled(tmp_path: Path, tool: Tool) -> None:
    """The probe only watches, beside another profiler: no window is open, and none will be."""
    run(tmp_path, "train(12, 'd', 'g')", tool.environment(), window=("none",))
    assert [path for path in tool.ranges() if path.count("/") == 0][-7:] == [f"step {n}" for n in range(5, 12)]


@pytest.mark.parametrize("ending", ENDINGS)
def test_every_range_ends(tmp_path: Path, tool: Tool, ending: str) -> None:
    expected, script = ENDINGS[ending]
    code, seen = run(tmp_path, script, tool.environment())
    assert code == expected
    assert seen["gaps"] == []
    threads = tool.threads()
    assert len({thread.partition("/")[0] for thread in threads}) == 1  # a forked child begins and ends none
    found = [path for events in threads.values() for path in paths(events)]
    assert "step 4/g" in found


def test_interrupts_leave_no_range_open() -> None:
    """Push and pop of the tool are functions in C, as those of a list are."""
    log: list[Any] = []
    ranges = Ranges(Gaps())
    ranges.active = ranges.listening = True
    ranges._opened, ranges._event = Opened(log.append, functools.partial(log.append, None)), str
    interrupted = 0

    def interrupt(*_: object) -> None:
        raise InterruptedError

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        while interrupted < 300:
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0003)
                for number in range(10**6):
                    ranges.begin_step(number)
                    ranges.begin_phase("call")
                    ranges.end_phase()
            except InterruptedError:
                interrupted += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    ranges.finish()
    assert len(paths(log)) > 1000


def test_no_tool_costs_nothing(tmp_path: Path) -> None:
    script = "train(9, 'd'); import sys; assert not {'nvtx', 'ctypes'} & set(sys.modules)"
    code, seen = run(tmp_path, script, {}, package=True)
    assert (code, seen["gaps"], seen["nvtx"]) == (0, [], None)


@pytest.mark.parametrize(
    ("variables", "reason"),
    [
        ({"NVTX_DEAF": "1"}, None),
        ({"NVTX_DISABLE": "1"}, None),
        ({"NVTX_EMPTY": "1"}, "offers no ranges"),
        ({"NVTX_INJECTION64_PATH": "/nowhere/tool.so"}, "/nowhere/tool.so"),
        ({"NVTX_INJECTION64_PATH": "libm.so.6"}, "InitializeInjectionNvtx2"),
    ],
)
def test_a_tool_that_cannot_be_told(tmp_path: Path, tool: Tool, variables: dict[str, str], reason: str | None) -> None:
    code, seen = run(tmp_path, "train(9, 'd', 'g')", tool.environment(**variables))
    assert (code, seen["nvtx"], seen["steps"]["count"]) == (0, None, 9)
    assert [gap["hook"] for gap in seen["gaps"]] == ([] if reason is None else ["NVTX ranges"])
    assert reason is None or reason in seen["gaps"][0]["reason"]
    assert not tool.log.exists()
