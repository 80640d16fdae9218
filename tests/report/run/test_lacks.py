"""`tcprobe doctor PROFILE`: what profiles lack, and the command that settles kernels of unknown class."""

from __future__ import annotations

from pathlib import Path

import pytest

from tcprobe.flows.doctor import lacks
from tcprobe.report.run.lacks import BY_TORCH, WITH_GRAPH, Lack, _function, lines_of_lacks
from tests.readers.kineto.made import Made
from tests.support import ROOT

FIXTURES = ROOT / "tests" / "fixtures"


def found(name: str) -> dict[str, Lack]:
    return {lack.check: lack for lack in lacks(FIXTURES / name)}


def test_a_profile_of_kernels_whose_names_do_not_tell() -> None:
    made = found("h100/jax_float32.xplane.pb")
    assert set(made) == {"range_kernels", "layers", "counters", "overhead"}
    assert made["layers"].text == "no op belongs to a layer"  # as the report has it
    assert {lack.state for lack in made.values()} == {"warning"}
    remedy = str(made["counters"].remedy)
    assert remedy.startswith("tcprobe profile --profiler ncu --kernels 'gemm_fusion_dot_2|")
    assert "--launch-count 50 --output counters WORKLOAD, then" in remedy
    assert remedy.endswith("jax_float32.xplane.pb --counters counters/raw/ncu/report.csv")


def test_what_is_named_can_record_it(tmp_path: Path) -> None:
    """No steps from ranges where there are none; layers by the profiler of the framework; no pattern for no name."""
    made = Made()
    made.launch("", 10, 20, 100)
    bare = {lack.check: lack for lack in lacks(made.write(tmp_path / "a.pt.trace.json"))}
    assert bare["steps"].remedy == "tcprobe profile WORKLOAD"
    assert bare["layers"].remedy == bare["gemms"].remedy == BY_TORCH
    assert "counters" not in bare
    made.op("aten::relu", 5, 30)
    told = {lack.check: lack for lack in lacks(made.write(tmp_path / "a.pt.trace.json"))}
    assert "--step-range REGEX, or tcprobe profile WORKLOAD" in str(told["steps"].remedy)
    assert found("h100/jax_float32.xplane.pb")["layers"].remedy == WITH_GRAPH


def test_the_command_of_a_run_folder_is_its_own() -> None:
    assert "overhead" not in found("gpu_run/run")  # its probe timed steps after the profiled ones too
    remedy = str(found("gpu_run/run")["counters"].remedy)
    assert "--kernels my_custom_kernel --launch-count 50 --output counters /home/user/" in remedy
    assert "/project/workloads/train_gan.py --prec" in remedy


def test_a_profile_without_kernels_is_a_problem() -> None:
    made = found("kineto/cpu.pt.trace.json.gz")
    assert made["kernels"].state == "problem" and made["kernels"].text == "the run used no GPU"
    assert made["gpu"].text == "the run used no GPU" and made["few-steps"].remedy
    assert lines_of_lacks(list(made.values()), 120)[0].startswith("state")
    assert lines_of_lacks([], 80) == ["nothing is missing that a report takes"]


@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        ("void cutlass::Kernel<cutlass_80_tensorop_s1688>(Params)", "Kernel"),
        ("void (anonymous namespace)::softmax<float, 4>(float*)", "softmax"),
        ("gemm_fusion_dot_2", "gemm_fusion_dot_2"),
        ("sm90_xmma_gemm_f32f32(int)", "sm90_xmma_gemm_f32f32"),
    ],
)
def test_the_function_of_a_kernel(kernel: str, name: str) -> None:
    assert _function(kernel) == name
