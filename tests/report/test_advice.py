"""What to do first."""

from __future__ import annotations

import pytest

from tcprobe.analysis.capability import tc_blocker
from tcprobe.hardware import find_gpu
from tcprobe.report import advice, findings
from tests.report.builders import cpu_profile, gpu_profile, summary_only, table


def test_the_costliest_comes_first_and_names_the_line() -> None:
    profile = gpu_profile()
    steps = advice.steps(profile, findings.blocked(profile))
    assert steps[0].startswith("Try 8 or more channels")
    assert "42.0 % of the kernel time; above all generator/conv2d_3 (wgrad) (train_gan.py:61)." in steps[0]
    assert steps[2].startswith("Change filters of generator/conv2d from 63 to 64 (train_gan.py:57).")


def test_without_a_gpu_flops_are_weighed() -> None:
    profile = cpu_profile()
    first, second = advice.steps(profile, findings.blocked(profile))
    assert first.startswith("Change units of generator/dense from 3087 to 3088")
    assert "21.0 % of the FLOPs of a step" in second


@pytest.mark.parametrize(
    "advice_given",
    ["nothing: an image's", "no effect: no Tensor Cores", "slower; it follows from what feeds this layer"],
)
def test_a_size_to_be_left_alone_is_no_advice(advice_given: str) -> None:
    row = {"layer": "l", "dimension": "units", "size": 10, "next_size": 16, "multiple": 8, "basis": "graph",
           "kernel_ns": 1, "share_pct": 90.0, "advice": advice_given}  # fmt: skip
    assert advice.steps(gpu_profile().with_tables(table("bad_sizes", row)), None) == []


def test_a_hundredth_is_not_worth_a_step() -> None:
    row = {"layer": "l", "dimension": "units", "size": 10, "next_size": 16, "multiple": 8, "basis": "graph"}
    small, large = ({**row, "flops_pct": share} for share in (0.9, 1.1))
    assert advice.steps(gpu_profile().with_tables(table("bad_sizes", small)), None) == []
    assert len(advice.steps(gpu_profile().with_tables(table("bad_sizes", large)), None)) == 1


def test_nothing_known_is_no_advice() -> None:
    assert advice.steps(summary_only(), None) == []


@pytest.mark.parametrize(
    ("gpu", "dtype", "more", "said"),
    [
        ("t4", "float32", {}, "Train in mixed precision in float16"),
        ("t4", "bfloat16", {}, "Use mixed_float16"),
        ("t4", "float64", {}, "Compute in float32"),
        ("p100", "float32", {}, "Run on a GPU with Tensor Cores"),
        ("a100-sxm-40", "float32", {"tf32_allowed": False}, "Allow TF32"),
        ("a100-sxm-40", "float32", {"tf32_allowed": None}, "Make sure that the run allows TF32"),
        ("a100-sxm-40", "float16", {"uses_tc": "no"}, "Try 8 or more channels"),
        (
            "a100-sxm-40",
            "float16",
            {"uses_tc": "no", "contiguous_dims_bytes_aligned": False},
            "Make the sizes multiples",
        ),
        ("a100-sxm-40", "float16", {"uses_tc": "unknown"}, None),
        ("a100-sxm-40", None, {"uses_tc": "no"}, None),
    ],
)
def test_every_blocker_that_has_a_cure_gets_it(gpu: str, dtype: str, more: dict[str, object], said: str | None) -> None:
    known: dict[str, object] = {
        "compute_capability": None, "tf32_allowed": True, "contiguous_dims_bytes_aligned": True, "uses_tc": "no",
    }  # fmt: skip
    reason = tc_blocker("MatMul", dtype, find_gpu(gpu), **{**known, **more}).text  # type: ignore[arg-type]
    cure = advice.remedy(reason)
    assert (cure is None) if said is None else str(cure).startswith(said)


@pytest.mark.parametrize("framework", ["tensorflow 2.21.0", "pytorch 1.8", None])
@pytest.mark.parametrize(
    ("gpu", "more", "said", "never"),
    [
        ("t4", {}, "float16", ("bfloat16", "TF32")),
        ("v100-sxm2", {}, "float16", ("bfloat16", "TF32")),
        ("a100-sxm-40", {"tf32_allowed": False}, "Allow TF32", ()),
    ],
)
def test_a_precision_fits_the_gpu(
    framework: str | None, gpu: str, more: dict[str, object], said: str, never: tuple[str, ...]
) -> None:
    known: dict[str, object] = {
        "compute_capability": None, "tf32_allowed": None, "contiguous_dims_bytes_aligned": None, "uses_tc": "no",
    }  # fmt: skip
    reason = tc_blocker("MatMul", "float32", find_gpu(gpu), **{**known, **more}).text  # type: ignore[arg-type]
    row = {"op": "a/MatMul", "op_type": "MatMul", "tc_capable": "yes", "tc_blocker": reason, "sum_ns": 9, "tc_ns": 0}
    kernel = {"kernel": "sgemm", "sum_ns": 9, "uses_tc": "no", "evidence": "its name"}
    profile = gpu_profile().with_metadata(framework=framework)
    profile = profile.with_tables(table("ops", row), table("kernels", kernel), table("bad_sizes"))
    (step,) = advice.steps(profile, findings.blocked(profile))
    assert said in step.partition(". Why")[0]
    assert not [word for word in never if word in step.partition(". Why")[0]]
