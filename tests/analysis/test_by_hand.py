"""One figure of each kind, worked by hand, on two GPUs with several streams; and sums that must agree on any run.

Each step of 1000 ns launches, in ns from its start:
  GPU 0, stream 7: Tensor Core MatMul 0-300; then a kernel of unknown class, of the optimiser, 400-500
  GPU 0, streams 8 and 9: two kernels of BiasAdd, 200-400 and 250-350
  GPU 1, stream 7: Tensor Core MatMul 0-300; then a kernel of no op without Tensor Cores 600-700
  copies: 60 ns on GPU 0, 40 ns on GPU 1
so 1100 ns of kernels, of which 600 on Tensor Cores and 100 unknown; GPU 0 is busy for 500 ns, GPU 1 for 400.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tcprobe.analysis import Options, analyse
from tcprobe.schema.profile import Profile
from tcprobe.schema.tables import LAUNCHES, MEMORY_OPS
from tests.analysis import builders as b
from tests.support import examples

STEPS = 6
DETAILS = b.details(
    ("model/a/MatMul", "MatMul", "float16"), ("model/a/BiasAdd", "BiasAdd"), ("sgd/AssignSubVariableOp", "Assign")
)
LAUNCHED = (
    (0, 7, b.TC, 0, 0, 300), (0, 7, b.UNKNOWN, 2, 400, 100), (0, 8, b.OTHER, 1, 200, 200), (0, 9, b.OTHER, 1, 250, 100),
    (1, 7, b.TC, 0, 0, 300), (1, 7, b.FP32, -1, 600, 100),
)  # fmt: skip


def two_gpus(launched: tuple[tuple[Any, ...], ...] = LAUNCHED, copied_at: int = 800) -> Profile:
    launches, copies = [], []
    for step in range(STEPS):
        for device, stream, kernel, op, at, spent in launched:
            launches.append(
                {
                    "device": device, "stream": stream, "kernel": kernel, "op_id": op, "start_ns": 1000 * step + at,
                    "duration_ns": spent, "config_id": -1, "launch_ns": 1000 * step, "iteration": step,
                }
            )  # fmt: skip
        for device, spent in ((0, 60), (1, 40)):
            at = 1000 * step + copied_at
            copies.append(
                {
                    "device": device, "stream": 7, "start_ns": at, "duration_ns": spent, "kind": "MemcpyH2D",
                    "iteration": step,
                }
            )  # fmt: skip
    return b.profile(
        b.table(LAUNCHES, launches), b.table(MEMORY_OPS, copies), DETAILS, b.devices({}, {"device": 1}),
        b.marks([1000 * i for i in range(STEPS)], 900), b.graph(b.dense("a", 64, 128)),
    )  # fmt: skip


def test_summary() -> None:
    found = b.summary(analyse(two_gpus()))
    share = found["tc_kernel_time_pct"]
    assert (share["low"], share["high"]) == pytest.approx((100 * 600 / 1100, 100 * 700 / 1100))
    # The window ends with the last mark, at 5900; the mean over the two GPUs
    busy = 100 * (6 * 500 / 5900 + 6 * 400 / 5900) / 2
    rate = 2 * 2 * 32 * 64 * 128 / 600 / 1e3  # both GPUs multiply in every step: 600 ns of kernels for two products
    expected = {
        "coverage_pct": 100 * 1000 / 1100, "capable_time_pct": 100 * 600 / 1100, "tc_capable_time_pct": 100,
        "kernel_time_ns": 6600, "tc_time_ns": 3600, "memory_time_ns": 600, "kernels": 36, "iterations_in_window": 6,
        "gpu_busy_pct": busy, "precision_fp16_time_pct": 100 * 600 / 1100, "step_time_ns": 1000,
        "flops_per_step": 2 * 32 * 64 * 128, "achieved_tflop_per_s": rate, "peak_pct": 100 * rate / 125,
        "mfu_pct": 100 * (2 * 2 * 32 * 64 * 128 / 125e3) / (2 * 1000),  # of both GPUs: ns at 125 TFLOP/s over 1000 ns
    }  # fmt: skip
    assert {name: found[name]["value"] for name in expected} == pytest.approx(expected)


def test_tables() -> None:
    out = analyse(two_gpus())
    ops = {row["op"]: (row["launches"], row["sum_ns"], row["union_ns"], row["tc_ns"]) for row in b.rows(out, "ops")}
    assert ops == {
        "model/a/MatMul": (12, 3600, 3600, 3600), "model/a/BiasAdd": (12, 1800, 1200, 0),
        "sgd/AssignSubVariableOp": (6, 600, 600, 0), "(no op)": (6, 600, 600, 0),
    }  # fmt: skip
    layers = {row["layer"]: row for row in b.rows(out, "layers")}
    assert {name: (row["sum_ns"], row["tc_ns"], row["unknown_ns"]) for name, row in layers.items()} == {
        "a": (5400, 3600, 0), "(no layer)": (1200, 0, 600),
    }  # fmt: skip
    assert layers["a"]["share_pct"] == pytest.approx(100 * 5400 / 6600)
    for row in b.rows(out, "iterations"):
        assert [row[c] for c in ("launches", "sum_ns", "union_ns", "tc_ns", "unknown_ns", "memory_ns")] == [
            6, 1100, 900, 600, 100, 100,
        ]  # fmt: skip
        assert (row["off_ns"], row["copy_ns"]) == (100, 100)  # of no op, but its name tells a product
    devices = [
        tuple(row[c] for c in ("launches", "sum_ns", "union_ns", "window_ns", "tc_ns", "unknown_ns", "memory_ns"))
        for row in b.rows(out, "devices")
    ]
    assert devices == [(24, 4200, 3000, 5900, 1800, 600, 360), (12, 2400, 2400, 5900, 1800, 0, 240)]
    kernels = {(row["device"], row["kernel"]): (row["calls"], row["sum_ns"]) for row in b.rows(out, "kernels")}
    assert kernels == {
        (0, b.TC): (6, 1800), (1, b.TC): (6, 1800), (0, b.OTHER): (12, 1800), (0, b.UNKNOWN): (6, 600),
        (1, b.FP32): (6, 600),
    }  # fmt: skip
    (gemm,) = b.rows(out, "gemms")
    assert (gemm["m"], gemm["n"], gemm["k"], gemm["kernel_ns"], gemm["tc_blocker"]) == (32, 128, 64, 3600, "none")


def test_a_step_has_the_kernels_that_could_use_tensor_cores_and_the_copies_beside_which_none_ran() -> None:
    """MatMul in plain float32 0-300 on GPU 0 and 300-400 on GPU 1; copies 270-330 and 270-310."""
    out = analyse(two_gpus(((0, 7, b.FP32, 0, 0, 300), (1, 7, b.FP32, 0, 300, 100), (1, 8, b.OTHER, 1, 0, 50)), 270))
    assert {(row["sum_ns"], row["off_ns"], row["copy_ns"]) for row in b.rows(out, "iterations")} == {
        (450, 400, 30 + 30)
    }


OF_NO_DTYPE = (("model/a/MatMul", "MatMul"), ("model/a/BiasAdd", "BiasAdd"), ("sgd/AssignSubVariableOp", "Assign"))
EVENT = st.tuples(
    st.sampled_from([b.TC, b.FP32, b.OTHER, b.UNKNOWN]), st.integers(-1, 2), st.integers(0, 7),
    st.integers(0, 8000), st.integers(0, 900), st.integers(0, 1),
)  # fmt: skip


@settings(max_examples=examples(50))
@given(st.lists(EVENT, min_size=1, max_size=60), st.integers(0, 7), st.integers(0, 7))
def test_layers_ops_and_kernels_of_the_window_have_one_sum(events: list[Any], one: int, other: int) -> None:
    low, high = sorted((one, other))
    run = b.profile(
        b.launches(*events), b.details(*OF_NO_DTYPE), b.devices({}, {"device": 1}),
        b.marks([1000 * i for i in range(8)], 900),
        b.graph(b.dense("a", 64, 128)),
    )  # fmt: skip
    inside = [event for event in events if low <= event[2] <= high]
    out = analyse(run, Options(iter_start=low, iter_stop=high))
    names = ("kernels", "devices", "ops", "layers")
    tables = names if out.table("ops") is not None else names[:2]  # without a named op, no layer's time is known
    for name in tables:
        assert sum(row["sum_ns"] or 0 for row in b.rows(out, name)) == sum(event[4] for event in inside), name
    for name in tables[1:]:
        on_tc = sum(row["tc_ns"] or 0 for row in b.rows(out, name))
        assert on_tc == sum(event[4] for event in inside if event[0] == b.TC), name
    counted = [row for row in b.rows(out, "iterations") if row["in_window"]]
    assert sum(row["sum_ns"] for row in counted) == sum(event[4] for event in inside)
