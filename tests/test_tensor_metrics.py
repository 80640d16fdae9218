"""Which counters Nsight Compute is asked for, by what each chip has."""

from __future__ import annotations

import pytest

from tcprobe.analysis.kernels.counters import judge_counters
from tcprobe.hardware import Capability
from tcprobe.tensor_metrics import tensor_metrics

COMMON = ("gpu__time_duration", "sm__inst_executed_pipe_tensor", "sm__pipe_tensor_cycles_active", "sm__cycles_active")
TYPES = tuple(
    f"sm__inst_executed_pipe_tensor_op_{name}" for name in ("hmma", "imma", "dmma", "hmma_type_hfma2", "gmma")
)
TOTALS = tuple(
    f"sm__ops_path_tensor_src_{n}" for n in ("fp16", "int8", "fp64", "bf16_dst_fp32", "tf32_dst_fp32", "fp8")
)
PARTS = ("sm__ops_path_tensor_src_fp16_sparsity_on", "sm__ops_path_tensor_op_hgmma_src_bf16_dst_fp32")
UTC = tuple(
    f"sm__ops_path_tensor_op_utc{n}" for n in ("qmma_src_fp8", "hmma_src_fp16", "hmma_src_bf16", "imma_src_int8")
)
CHIPS: dict[Capability, tuple[str, ...]] = {
    (7, 5): (*COMMON, *TYPES[:2]),
    (8, 0): (*COMMON, *TYPES[:4]),  # these as Nsight Compute 2022.3 names them, the later ones as 2024.1 does
    (9, 0): (*COMMON, *TYPES, *TOTALS, *PARTS),
    (10, 0): (
        *COMMON,
        "sm__inst_executed_pipe_tc",
        "sm__pipe_tc_cycles_active",
        *UTC,
        "sm__ops_path_tensor_op_dmma_src_fp64",
    ),
}


@pytest.mark.parametrize("capability", CHIPS)
def test_the_counters_asked_for_prove_either(capability: Capability) -> None:
    table = "".join(f"{name:<79} {'Counter':<15} {'inst':<15} # of things\n" for name in CHIPS[capability])
    asked = tensor_metrics(f"Device NVIDIA\n{'-' * 79}\n{table}==PROF== Note that these metrics need a suffix\n")
    assert asked[0] == "gpu__time_duration.sum" and len(asked) <= 32
    assert not [one for one in asked if "sparsity" in one or "hgmma_src" in one or "sm__cycles" in one]
    assert (UTC[0] + ".sum" in asked) == (capability == (10, 0))  # no total says it
    no = judge_counters(dict.fromkeys(asked, (0.0, "")), capability)
    yes = judge_counters(dict.fromkeys(asked, (1e6, "")), capability)
    assert (no and no.uses_tc, yes and yes.uses_tc) == ("no", "yes")


def test_where_it_does_not_answer_two_counters_of_every_chip_are_asked_for() -> None:
    asked = tensor_metrics("==ERROR== Driver could not be loaded.\n")
    names = ["sm__pipe_tensor_cycles_active", "sm__inst_executed_pipe_tensor"]
    assert [one.split(".")[0] for one in asked[1:]] == names and asked == tensor_metrics()
