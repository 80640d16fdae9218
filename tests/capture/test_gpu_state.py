"""The state of GPUs around and in a run, as stand-ins for nvidia-smi tell it."""

from __future__ import annotations

import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tcprobe.capture import smi
from tcprobe.capture.gpu_state import Card, Sample, Watch, states_of
from tests.support import ROOT

SMI = """#!{python} -S
import sys, time
word, loops = sys.argv[1], sys.argv[-1].startswith("--loop-ms")
if word.startswith("--query-compute"):
    print("GPU-a, 17\\nGPU-a, 18")
    sys.exit()
names = word.partition("=")[2].split(",")
if "clocks_event_reasons.active" in names:
    print('Field "clocks_event_reasons.active" is not a valid field to query.')
    sys.exit(2)
while True:
    now = time.time()
    values = dict.fromkeys(names, "[N/A]")
    values["timestamp"] = time.strftime("%Y/%m/%d %H:%M:%S", time.localtime(now)) + ".%03d" % (now % 1 * 1000)
    values.update({{"uuid": "GPU-a", "index": "0", "name": "Tesla T4", "clocks.sm": "1410", "clocks.mem": "5000"}})
    values["clocks_throttle_reasons.active"] = "0x0000000000000044"
    print(", ".join(values[n] for n in names), flush=True)
    if not loops:
        break
    time.sleep(0.02)
"""
CARDS = (Card(0, "GPU-a", "Tesla T4"), Card(1, "GPU-b", "Tesla T4"))


def stand_in(monkeypatch: pytest.MonkeyPatch, folder: Path, text: str) -> None:
    program = folder / "nvidia-smi"
    program.write_text(text.format(python=sys.executable), encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


def test_a_run_is_sampled_from_outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stand_in(monkeypatch, tmp_path, SMI)
    watch = Watch().start()
    time.sleep(0.5)
    states = states_of(watch.stop(), {"wall_s": [watch.began, watch.ended]}, {"CUDA_VISIBLE_DEVICES": "0"})
    assert states is not None and len(states) == 1
    window, held = states[0].pop("window"), {"power cap": 100.0, "temperature (hardware)": 100.0}
    assert window.pop("samples") > 1
    assert window == {
        "sm_clock_mhz": 1410.0, "memory_clock_mhz": 5000.0, "power_w": None, "temperature_c": None,
        "held_down_pct": held,
    }  # fmt: skip
    assert [states[0][key]["samples"] for key in ("before", "after")] == [1, 1]
    assert {key: states[0][key] for key in ("index", "name", "device", "other_processes", "uncorrected_errors")} == {
        "index": 0, "name": "Tesla T4", "device": 0, "other_processes": 2, "uncorrected_errors": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "",  # there is none
        "#!/bin/sh\necho NVIDIA-SMI has failed; exit 9\n",
        "#!/bin/sh\nexit 0\n",
        "#!/bin/sh\necho a, b\n",
        "not a program",
    ],
)
def test_a_machine_without_an_answer_costs_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    if text:
        stand_in(monkeypatch, tmp_path, text)
    began = time.monotonic()
    assert states_of(Watch().start().stop(), None, {}) is None
    assert time.monotonic() - began < 2


def test_an_endless_answer_does_not_hold_a_run_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tcprobe.capture.gpu_state.FIRST_SECONDS", 0.2)
    stand_in(monkeypatch, tmp_path, "#!{python} -S\nimport time; time.sleep(9)\n")
    began = time.monotonic()
    assert states_of(Watch().start().stop(), None, {}) is None
    assert time.monotonic() - began < 2


def watched(*cards: Card, direct: bool = True) -> Watch:
    """A run from second 10 to 20 on a clock that falls from 900 MHz by 100 MHz in each of 9 samples."""
    watch = Watch(direct)
    watch.began, watch.ended = 10.0, 20.0
    watch.cards = {card.uuid: card for card in cards}
    for card in cards:
        clocks = [900.0 - 100 * n for n in range(9)]
        watch.samples += [
            Sample(9.0 + 1.5 * n, card.uuid, mhz, 5000.0, None, 50.0 + n, 1.0 + n, 0x4 * (n > 5))
            for n, mhz in enumerate(clocks)
        ]
    watch.others = [Counter({"GPU-b": 1}), Counter({"GPU-b": 3})]
    return watch


def test_samples_are_of_the_window_the_run_or_beside_it() -> None:
    """Samples at 9 | 10.5 ... 19.5 | 21: one before, seven in the run, one after; 12 to 16.5 are four of the window."""
    states = states_of(watched(*CARDS), {"wall_s": [12.0, 17.0]}, {})
    assert states is not None
    one = states[0]
    medians = {key: (one[key]["samples"], one[key]["sm_clock_mhz"]) for key in ("before", "window", "run", "after")}
    assert medians == {"before": (1, 900.0), "window": (4, 500.0), "run": (7, 500.0), "after": (1, 100.0)}
    assert (one["window"]["temperature_c"], one["run"]["temperature_c"]) == (55.0, 57.0)
    assert one["window"]["held_down_pct"] == {}
    assert one["run"]["held_down_pct"] == {"power cap": pytest.approx(100 * 2 / 7)}
    assert [(gpu["device"], gpu["other_processes"], gpu["uncorrected_errors"]) for gpu in states] == [
        (0, 0, 8.0),
        (1, 3, 8.0),
    ]


@pytest.mark.parametrize(
    ("counts", "errors"),
    [((3.0, 3.0), 0.0), ((3.0, None, 5.0), 2.0), ((5.0, 0.0), None), ((3.0,), None), ((None, None), None)],
)
def test_errors_of_earlier_runs_are_none_of_this_one(counts: tuple[float | None, ...], errors: float | None) -> None:
    """The driver counts since it was loaded; a count that fell was begun anew."""
    watch = watched(CARDS[0])
    watch.samples = [Sample(9.0 + n, "GPU-a", None, None, None, None, count, None) for n, count in enumerate(counts)]
    (state,) = states_of(watch, None, {}) or ()
    assert state["uncorrected_errors"] == errors


@pytest.mark.parametrize(
    ("chosen", "numbered"),
    [
        ({}, {0: 0, 1: 1}),
        ({"CUDA_VISIBLE_DEVICES": "1"}, {1: 0}),
        ({"CUDA_VISIBLE_DEVICES": "1, 0"}, {0: 1, 1: 0}),
        ({"CUDA_VISIBLE_DEVICES": "GPU-b"}, {1: 0}),
        ({"CUDA_VISIBLE_DEVICES": "MIG-7"}, {0: None, 1: None}),  # which GPU that is of nothing tells
        ({"CUDA_VISIBLE_DEVICES": "5"}, {0: None, 1: None}),
    ],
)
def test_gpus_have_the_numbers_that_the_workload_knows_them_by(
    chosen: dict[str, str], numbered: dict[int, int | None]
) -> None:
    states = states_of(watched(*CARDS), None, chosen)
    assert {gpu["index"]: gpu["device"] for gpu in states or ()} == numbered


def test_unlike_gpus_are_numbered_by_the_bus_alone() -> None:
    other = Card(1, "GPU-b", "NVIDIA H100 80GB HBM3")
    both: dict[str, Any] = {"CUDA_VISIBLE_DEVICES": "1"}
    assert [gpu["device"] for gpu in states_of(watched(CARDS[0], other), None, both) or ()] == [None, None]
    both["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    assert [gpu["device"] for gpu in states_of(watched(CARDS[0], other), None, both) or ()] == [0]


def test_behind_a_launcher_one_gpu_alone_is_certain() -> None:
    assert [gpu["device"] for gpu in states_of(watched(CARDS[0], direct=False), None, {}) or ()] == [0]
    assert [gpu["device"] for gpu in states_of(watched(*CARDS, direct=False), None, {}) or ()] == [None, None]


def test_nothing_else_asks_for_the_state_of_a_gpu() -> None:
    asking = [path.name for path in (ROOT / "tcprobe").rglob("*.py") if "temperature.gpu" in path.read_text("utf-8")]
    assert asking == ["gpu_state.py"] and smi.PROGRAM == "nvidia-smi"
