"""Counters that CUPTI counted range by range, of made traces and of a public one."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from pathlib import Path

import pytest

from tcprobe.analysis.flow import analyse
from tcprobe.flows.report import make_report
from tcprobe.readers.kineto import events
from tcprobe.readers.open import open_profile
from tcprobe.schema.profile import Profile
from tests.analysis import builders as b
from tests.readers.kineto.made import Made
from tests.support import shared

TENSOR = "sm__inst_executed_pipe_tensor.sum"
ACTIVE = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active"
T4 = {"name": "Tesla T4", "computeMajor": 7, "computeMinor": 5}


def counted(made: Made, name: str, correlation: int = 0, device: int = 0, **metrics: float | str) -> None:
    args = {**metrics, **({"correlation": correlation} if correlation else {})}
    made.events.append(
        {
            "ph": "X",
            "cat": "cuda_profiler_range",
            "name": name,
            "pid": device,
            "tid": 0,
            "ts": 1,
            "dur": 9,
            "args": args,
        }
    )


def read(made: Made, folder: Path, name: str = "x") -> Profile:
    return open_profile(made.write(folder / f"{name}.pt.trace.json"))


def codes(profile: Profile) -> set[str]:
    return {note.code for note in profile.metadata.notes}


def test_counters_decide_of_the_kernels_beside_them(tmp_path: Path) -> None:
    """By its name the first kernel multiplies on Tensor Cores; its two launches executed none of their instructions."""
    made = Made(T4)
    made.launch(b.TC, 0, 10, 30)
    made.launch(b.TC, 1, 50, 30)
    made.launch(b.OTHER, 2, 90, 5)
    for number, value, share in ((1, 0, 0.0), (2, 0, 0.0), (3, 640, 2.5)):
        counted(made, "said otherwise", number, **{TENSOR: value, ACTIVE: share, "nonsense": 3, "odd__metric": "x"})
    found = read(made, tmp_path)
    rows = b.rows(found, "kernel_counters")
    assert [
        (row["kernel"], row["grid"], row["block"], row["metric"], row["value"], row["launches"]) for row in rows
    ] == [
        (b.TC, "8,4,1", "128,1,1", TENSOR, 0.0, 2),
        (b.TC, "8,4,1", "128,1,1", ACTIVE, 0.0, 2),
        (b.OTHER, "8,4,1", "128,1,1", TENSOR, 640.0, 1),
        (b.OTHER, "8,4,1", "128,1,1", ACTIVE, 2.5, 1),
    ]
    assert [row["unit"] for row in rows] == [None, "%", None, "%"]
    verdicts = {
        row["kernel"]: (row["uses_tc"], row["basis"], row["sum_ns"]) for row in b.rows(analyse(found), "kernels")
    }
    assert verdicts == {b.TC: ("no", "counter", 60_000), b.OTHER: ("yes", "counter", 5_000)}
    assert "counted-one-by-one" in codes(found) and "serialises_kernels" in found.traits


def test_counters_alone_name_kernels_and_tell_no_time(tmp_path: Path) -> None:
    made = Made(T4)
    for value in (5, 7):
        counted(made, b.TC, **{TENSOR: value})
    counted(made, "__missing__", device=1, **{TENSOR: 0})
    found = read(made, tmp_path)
    kernels = [(row["device"], row["kernel"], row["calls"], row["sum_ns"]) for row in b.rows(found, "kernels")]
    assert kernels == [(0, b.TC, 2, None), (1, "(no name)", 1, None)]
    assert [(row["device"], row["name"]) for row in b.rows(found, "devices")] == [(0, "Tesla T4"), (1, None)]
    assert [row["value"] for row in b.rows(found, "kernel_counters")] == [6.0, 0.0]
    assert codes(found) == {"counters-alone"} and found.metadata.gpu_used
    out = analyse(found)
    assert out.value("tc_kernel_time_pct") is None and "causes" in out.absent


def test_they_are_laid_over_a_trace_with_times(tmp_path: Path) -> None:
    timed, alone = Made(T4), Made(T4)
    timed.launch(b.TC, 0, 10, 30)
    counted(alone, b.TC, **{TENSOR: 0})
    paths = (timed.write(tmp_path / "timed.pt.trace.json"), alone.write(tmp_path / "alone.pt.trace.json"))
    out = make_report(paths[0], counters=paths[1])
    assert [(row["uses_tc"], row["basis"]) for row in b.rows(out, "kernels")] == [("no", "counter")]


def test_what_is_of_no_launch_is_no_counter_of_a_kernel(tmp_path: Path) -> None:
    """The capture as a whole, a range that Kineto gave no kernel, and launches of unlike sizes."""
    made = Made(T4)
    made.op("aten::mm", 0, 10, [8, 8], [8, 8])
    counted(made, "__profile__", **{TENSOR: 12})
    counted(made, "17", **{TENSOR: 1})
    counted(made, b.OTHER, device=-1, **{TENSOR: 1})
    found = read(made, tmp_path)
    assert [(row["metric"], row["value"], row["source"]) for row in b.rows(found, "reported")] == [
        (TENSOR, 12.0, "cuda_profiler_range __profile__ of GPU 0"),
        (TENSOR, 1.0, "cuda_profiler_range 17 of GPU 0"),
    ]
    assert found.table("kernel_counters") is None
    for value in (0, 9):
        counted(made, b.TC, **{TENSOR: value, ACTIVE: 1})
    assert {row["metric"] for row in b.rows(read(made, tmp_path, "y"), "kernel_counters")} == {ACTIVE}


@pytest.mark.parametrize("block", [300, 5000, 1 << 20])
def test_the_sums_of_a_public_trace_are_those_of_another_pass(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    path = shared("samples/kineto/a100_cupti_counters.json.gz")
    sums: dict[tuple[str, str], float] = defaultdict(float)
    for event in json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]:
        if event.get("cat") == "cuda_profiler_range":
            for metric, value in event["args"].items():
                sums["(no name)" if event["name"] == "__missing__" else event["name"], metric] += value
    monkeypatch.setattr(events, "BLOCK", block * 100)
    found = open_profile(path)
    ours = {
        (str(row["kernel"]), str(row["metric"])): float(row["value"] or 0) * int(row["launches"] or 0)
        for row in b.rows(found, "kernel_counters")
    }
    assert (
        len({name for name, _ in ours}) == 16 and sum(int(row["calls"] or 0) for row in b.rows(found, "kernels")) == 77
    )
    assert ours == pytest.approx({key: sums[key] for key in ours})
