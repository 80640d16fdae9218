"""Hardware counters: what proves that a kernel uses Tensor Cores, what proves that it does not, and what neither."""

from __future__ import annotations

import csv

import pytest

from tcprobe.analysis import analyse
from tcprobe.analysis.kernels.counters import Counters, judge_counters
from tcprobe.hardware import Capability
from tcprobe.schema.columns import Table
from tcprobe.schema.profile import Metadata, Profile
from tcprobe.schema.tables import KERNEL_COUNTERS, KERNELS, LAUNCH_CONFIGS
from tests.analysis.builders import FP32, TC, UNKNOWN, details, devices, launches, table
from tests.support import shared

PIPE = "sm__inst_executed_pipe_tensor.sum"
ACTIVE = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active"
GROUPED = "sm__pipe_tensor_type_hmma_hgmma_qgmma_imma_igmma_bmma_bgmma_cycles_active.avg.pct_of_peak_sustained_active"
HMMA, HFMA2 = "sm__inst_executed_pipe_tensor_op_hmma.sum", "sm__inst_executed_pipe_tensor_op_hmma_type_hfma2.sum"
T4, A100, H100, B200 = (7, 5), (8, 0), (9, 0), (10, 0)
SOURCES = ("fp16_dst_fp32", "bf16_dst_fp32", "tf32_dst_fp32", "int8", "fp64", "fp8")
NO_OPS = {f"sm__ops_path_tensor_src_{source}.sum": 0.0 for source in SOURCES}


def said(readings: dict[str, float], capability: Capability | None = T4) -> str | None:
    found = judge_counters({metric: (value, "") for metric, value in readings.items()}, capability)
    return found.uses_tc if found else None


@pytest.mark.parametrize(
    ("readings", "capability", "expected"),
    [
        ({}, (6, 0), None),  # Pascal has no Tensor Cores, and no counter of them
        ({"dram__bytes_read.sum": 8.0}, (6, 0), None),
        ({PIPE: 4096.0}, T4, "yes"),
        ({PIPE: 0.0}, T4, "no"),
        ({PIPE: 4096.0}, A100, None),  # HFMA2 counts too
        ({PIPE: 0.0}, A100, "no"),
        ({HMMA: 4096.0, HFMA2: 4096.0}, A100, None),
        ({HMMA: 4096.0, HFMA2: 96.0}, A100, "yes"),
        ({ACTIVE: 3.75}, H100, None),  # an element-wise kernel, measured
        ({ACTIVE: 3.75}, T4, "yes"),
        ({ACTIVE: 7.05}, H100, None),  # a bfloat16 addition of a training step, measured
        ({ACTIVE: 20.0}, H100, "yes"),
        (
            {"sm__pipe_tensor_cycles_active.max.pct_of_peak_sustained_active": 126.0},
            H100,
            None,
        ),  # 28 instructions in all
        ({ACTIVE: 0.05}, T4, None),
        ({GROUPED: 0.2}, H100, "yes"),
        ({GROUPED: 0.0}, H100, None),  # DMMA is not among them
        ({GROUPED: 0.0, "sm__inst_executed_pipe_tensor_op_dmma.sum": 0.0}, H100, "no"),
        ({"sm__inst_executed_pipe_tensor_op_imma.sum": 1.0}, A100, "yes"),
        ({"smsp__inst_executed_pipe_tensor_op_dmma.sum": 1.0}, A100, "yes"),
        ({HMMA: 0.0}, (7, 0), "no"),
        ({HMMA: 0.0}, T4, None),  # IMMA was not counted
        ({HMMA: 0.0, "sm__inst_executed_pipe_tensor_op_imma.sum": 0.0}, T4, "no"),
        ({"sm__ops_path_tensor_src_fp16_dst_fp32.sum": 1.0}, H100, "yes"),
        ({"sm__ops_path_tensor_src_fp16_dst_fp32.sum": 0.0}, H100, None),
        ({**NO_OPS, ACTIVE: 2.1}, H100, "no"),
        ({**NO_OPS, ACTIVE: 9.0, PIPE: 4096.0, HMMA: 4096.0, HFMA2: 4000.0}, H100, "no"),  # half-precision arithmetic
        ({**NO_OPS, ACTIVE: 2.1, GROUPED: 2.1}, H100, "no"),  # no operation: what kept the pipe active was HFMA2
        ({**NO_OPS, ACTIVE: 61.0, GROUPED: 61.0}, H100, None),  # they contradict each other
        ({metric: 0.0 for metric in NO_OPS if "fp8" not in metric}, H100, None),
        ({metric: 0.0 for metric in NO_OPS if "fp8" not in metric}, A100, "no"),
        ({"sm__ops_path_tensor_src_fp16_dst_fp32.sum": 0.0, PIPE: 0.0}, H100, "no"),
        ({**NO_OPS, "sm__ops_path_tensor_src_fp8.sum": 4096.0}, H100, "yes"),
        ({**NO_OPS, "sm__ops_path_tensor_src_fp64.sum": 4096.0}, H100, "yes"),
        ({**NO_OPS, "sm__inst_executed_pipe_tensor_op_gmma.sum": 4096.0}, H100, "yes"),
        ({"sm__ops_path_tensor_src_fp16_dst_fp32.sum.peak_sustained": 2048.0}, H100, None),  # a constant
        ({"sm__pipe_tensor_cycles_active.min": 0.0}, T4, None),  # of the idlest SM
        ({PIPE: 0.0}, B200, None),  # pipe tc was not counted
        ({PIPE: 0.0, "sm__inst_executed_pipe_tc.sum": 0.0}, B200, "no"),
        ({"sm__inst_executed_pipe_tc.sum": 7.0}, B200, "yes"),
        ({PIPE: 0.0}, None, None),
        ({"sm__inst_executed_pipe_fma.sum": 9.0, "device__attribute_tensor_map": 1.0}, T4, None),
        ({PIPE: float("nan")}, T4, None),
    ],
)
def test_what_is_proof(readings: dict[str, float], capability: Capability | None, expected: str | None) -> None:
    assert said(readings, capability) == expected


@pytest.mark.parametrize(
    ("name", "capability", "expected"),
    [
        ("cutlass_int8_a100", A100, "yes"),
        ("elementwise_h100", A100, "no"),  # recorded on an A100
        ("mlp_t4", T4, "no"),
        ("mlp_t4_v2", T4, "no"),
    ],
)
def test_reports_of_nsight_compute(name: str, capability: Capability, expected: str) -> None:
    with shared(f"samples/ncu/{name}.raw.csv").open(encoding="utf-8") as file:
        units, *rows = csv.DictReader(file)
    assert rows
    for row in rows:
        found = judge_counters(
            {k: (float(v), units[k]) for k, v in row.items() if "__" in k and _number(v)}, capability
        )
        assert found is not None
        assert found.uses_tc == expected


def _number(text: str) -> bool:
    return text.replace(".", "", 1).isdigit()


def counters(*rows: tuple[str, str | None, float]) -> Table:
    """Rows of (kernel, grid, value of PIPE)."""
    made = [{"kernel": k, "grid": g, "block": "32,1,1", "metric": PIPE, "value": v, "unit": "inst"} for k, g, v in rows]
    return table(KERNEL_COUNTERS, made)


def profile(*tables: Table) -> Profile:
    configs = table(LAUNCH_CONFIGS, [{"grid": g, "block": "32,1,1"} for g in ("1,1,1", "2,1,1")])
    return Profile(Metadata("xplane", gpu_used=True)).with_tables(configs, devices({}), *tables)


def launched(*rows: tuple[str, int]) -> Table:
    """Rows of (kernel, config)."""
    made = launches(*((kernel, -1, None, 100 * i, 10) for i, (kernel, _) in enumerate(rows)))
    return made.with_columns(config_id=[config for _, config in rows])


def verdicts(found: Profile) -> dict[str, tuple[object, object]]:
    kernels = found.require("kernels")
    pairs = zip(kernels.values("uses_tc"), kernels.values("basis"), strict=True)
    return dict(zip(map(str, kernels.values("kernel")), pairs, strict=True))


def test_counters_go_before_names_and_say_so() -> None:
    rows = launched((TC, 0), (FP32, 0), (UNKNOWN, 0))
    found = analyse(profile(rows, details(), counters((TC, "1,1,1", 0.0), (UNKNOWN, "1,1,1", 8192.0))))
    assert verdicts(found) == {TC: ("no", "counter"), FP32: ("no", "name"), UNKNOWN: ("yes", "counter")}
    (note,) = [n for n in found.metadata.notes if n.code == "counters-contradict-names"]
    assert note.message.startswith("hardware counters class 1 kernels (33.3 % of the time)")
    assert TC in note.message
    assert "they say no" in note.message
    evidence = dict(
        zip(found.require("kernels").values("kernel"), found.require("kernels").values("evidence"), strict=True)
    )
    assert evidence[UNKNOWN] == f"{PIPE} 8,192 inst"


def test_they_are_kept_by_configuration() -> None:
    rows = launched((UNKNOWN, 0), (TC, 1))
    both = counters((UNKNOWN, "1,1,1", 0.0), (UNKNOWN, "2,1,1", 8.0), (TC, "1,1,1", 0.0))
    found = verdicts(analyse(profile(rows, details(), both)))
    assert found[UNKNOWN] == ("no", "counter")
    assert found[TC] == ("no", "counter"), "only another configuration was measured, and no measured one differs"


def test_configurations_that_differ_prove_nothing() -> None:
    both = counters((UNKNOWN, "1,1,1", 0.0), (UNKNOWN, "2,1,1", 8.0))
    assert verdicts(analyse(profile(launched((UNKNOWN, 0), (UNKNOWN, 1)), details(), both))) == {
        UNKNOWN: ("unknown", None)
    }
    assert Counters(both).verdict(UNKNOWN, [("3,1,1", "32,1,1")], 0, T4) is None
    assert verdicts(analyse(profile(launched((UNKNOWN, 1)), details(), both))) == {UNKNOWN: ("yes", "counter")}


def test_kernels_that_a_profiler_summed_are_decided_too() -> None:
    row = {"device": 0, "kernel": TC, "calls": 1, "sum_ns": 5, "uses_tc": "yes", "basis": "reported", "evidence": "e"}
    kernels = table(KERNELS, [{**row, "grid": "1,1,1", "block": "32,1,1"}])
    found = analyse(profile(kernels, counters((TC, "1,1,1", 0.0))))
    assert verdicts(found) == {TC: ("no", "counter")}
    assert [n.code for n in found.metadata.notes if "contradict" in n.code] == ["counters-contradict-names"]


def test_counters_of_other_kernels_are_a_note() -> None:
    found = analyse(profile(launched((TC, 0)), details(), counters((FP32, "1,1,1", 0.0))))
    assert verdicts(found) == {TC: ("yes", "name")}
    assert "counters-unused" in [n.code for n in found.metadata.notes]
