"""Which counters are asked for, by what a chip has; names are those of `ncu --query-metrics`, version 2024.1.1."""

from __future__ import annotations

import pytest

from bench.gpu.counters.metrics import DURATION, FALLBACK, choose, named
from tcprobe.analysis.kernels.counters import judge_counters
from tcprobe.hardware import Capability

COMMON = ("gpu__time_duration", "sm__inst_executed_pipe_tensor", "sm__pipe_tensor_cycles_active", "sm__cycles_active")
INSTRUCTIONS = "sm__inst_executed_pipe_tensor_op_"
OPS = "sm__ops_path_tensor_"
TURING = (*COMMON, INSTRUCTIONS + "hmma", INSTRUCTIONS + "imma", OPS + "src_fp16_dst_fp16", OPS + "src_int8")
AMPERE = (
    *TURING,
    *(INSTRUCTIONS + name for name in ("dmma", "hmma_type_hfma2")),
    *(OPS + f"src_{name}" for name in ("bf16_dst_fp32", "fp64", "tf32_dst_fp32")),
    OPS + "src_bf16_dst_fp32_sparsity_on",
)
HOPPER = (
    *AMPERE,
    INSTRUCTIONS + "gmma",
    OPS + "src_fp8",
    OPS + "op_hgmma_src_bf16_dst_fp32",
    OPS + "op_hgmma_src_bf16_dst_fp32_sparsity_off",
    "sm__pipe_tensor_type_hmma_hgmma_qgmma_imma_igmma_bmma_bgmma_cycles_active",
    "sm__pipe_tensor_op_dmma_cycles_active",
)
BLACKWELL = (
    *COMMON,
    *(
        OPS + f"op_utc{name}"
        for name in ("qmma_src_fp8", "hmma_src_fp16", "hmma_src_bf16", "hmma_src_tf32", "imma_src_int8")
    ),
    OPS + "op_dmma_src_fp64",
    OPS + "op_utcqmma_src_fp8_sparsity_on",
    "sm__inst_executed_pipe_tc",
    "sm__pipe_tc_cycles_active",
)
CHIPS: dict[Capability, tuple[str, ...]] = {(7, 5): TURING, (8, 0): AMPERE, (9, 0): HOPPER, (10, 0): BLACKWELL}


def table(names: tuple[str, ...]) -> str:
    """Return what `ncu --query-metrics` prints."""
    rows = [f"{name:<79} {'Counter':<15} {'inst':<15} # of things" for name in names]
    head = ["Device NVIDIA (GPU)", "-" * 79 + " " + "-" * 15, f"{'Metric Name':<79} Metric Type"]
    return "\n".join(
        [*head, *rows, " " * 112 + "more of the description", "==PROF== Note that these metrics need a suffix"]
    )


@pytest.mark.parametrize("capability", CHIPS)
def test_few_counters_that_prove_either(capability: Capability) -> None:
    names = CHIPS[capability]
    asked = choose(named(table(names)))
    assert asked[0] == DURATION
    assert len(asked) <= 32
    assert not [
        metric for metric in asked if "sparsity" in metric or "sm__cycles" in metric or "op_dmma_cycles" in metric
    ]
    assert {metric.split(".")[0] for metric in asked} <= set(names)
    for value, verdict in ((1e6, "yes"), (0.0, "no")):
        found = judge_counters(dict.fromkeys(asked, (value, "")), capability)
        assert found is not None
        assert found.uses_tc == verdict


def test_hopper_has_its_totals_and_hfma2_and_no_parts() -> None:
    asked = choose(HOPPER)
    assert OPS + "src_bf16_dst_fp32.sum" in asked
    assert INSTRUCTIONS + "hmma_type_hfma2.sum" in asked
    assert not [metric for metric in asked if "op_hgmma_src" in metric]


def test_blackwell_has_both_pipes_and_operations_without_totals() -> None:
    asked = {metric.split(".")[0] for metric in choose(BLACKWELL)}
    assert {"sm__pipe_tensor_cycles_active", "sm__pipe_tc_cycles_active", OPS + "op_utcqmma_src_fp8"} <= asked


def test_csv_and_nothing() -> None:
    assert named('"Metric name","Metric type"\n"sm__inst_executed_pipe_tensor","Counter"\n') == [FALLBACK[0]]
    assert named("==ERROR== Driver could not be loaded.\n") == []
    assert [metric.split(".")[0] for metric in choose([])] == [DURATION.split(".")[0], *FALLBACK]
