"""What the table of where the time goes says of kernels without an op."""

from __future__ import annotations

from typing import Any

import pytest

from tcprobe.report.document import Section
from tcprobe.report.run.causes import cause_table
from tests.analysis import builders as b
from tests.analysis.causes.runs import run

A100 = {"name": "NVIDIA A100-SXM4-40GB", "compute_capability": "8.0", "sm_count": 108}
H100 = {"name": "NVIDIA H100 80GB HBM3", "compute_capability": "9.0", "sm_count": 132}
ALIGNED = "cutlass_80_tensorop_{}gemm_128x128_32x3_nn_align{}"


def shown(section: Section | None) -> str:
    assert section is not None
    return "\n".join(" ".join(cell if isinstance(cell, str) else cell.text for cell in row) for row in section.cells)


@pytest.mark.parametrize(
    ("operands", "alignment", "device", "says"),
    [
        ("bf16_s16816", 1, A100, "40 % of an aligned one's rate (A100"),
        ("bf16_s16816", 2, A100, "63 % of an aligned one's rate (A100"),
        ("bf16_s16816", 4, H100, "42 % of an aligned one's rate (H100"),
        ("s1688", 2, A100, "61 % of an aligned one's rate (A100"),
    ],
)
def test_a_misaligned_kernel_says_what_an_aligned_one_reaches(
    operands: str, alignment: int, device: dict[str, Any], says: str
) -> None:
    text = shown(cause_table(run((ALIGNED.format(operands, alignment), -1, 1_000), device=device)))
    assert "misaligned: a size, a view or a leading dimension; large products reach" in text
    assert says in text


def test_kinds_stand_for_kernels_that_multiply_nothing() -> None:
    kernels = ["matrix_addition2D(float*)", "ncclDevKernel_SendRecv(int)", "void reduce_kernel<1>(int)", b.FP32]
    text = shown(cause_table(run(*((name, -1, 1_000 - at) for at, name in enumerate(kernels)))))
    assert "- kernels of no matrix product" in text
    assert [word for word in ("elementwise", "communication", "reduction, scan") if word not in text] == []
    assert "! products off Tensor Cores" in text


def test_many_kinds_are_shown_as_the_costliest_and_others() -> None:
    names = ["add_kernel", "reduce_kernel", "copy_kernel", "softmax_kernel", "rmsnorm_kernel", "gather_kernel"]
    names += ["sort_kernel", "adam_kernel", "max_pool_kernel"]
    text = shown(cause_table(run(*((name, -1, 1_000 - at) for at, name in enumerate(names)))))
    assert "other kinds" in text
    assert "sorting" not in text
