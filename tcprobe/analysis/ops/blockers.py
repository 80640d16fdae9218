"""Say whether an op could use Tensor Cores, and what keeps it off them on the GPU of the run."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tcprobe.analysis.capability import tc_blocker, tc_capable
from tcprobe.analysis.context import Context
from tcprobe.schema.kinds import Blocker


def is_capable(op_types: Iterable[str | None]) -> str:
    """Return yes where one of an op's types has a Tensor Core kernel, no where none has, else unknown."""
    answers = {tc_capable(op_type) for op_type in op_types if op_type is not None}
    if "yes" in answers:
        return "yes"
    return "no" if answers == {"no"} else "unknown"


def short_name(kernel: str) -> str:
    """Return a kernel's name without its result, namespaces, template arguments and parameters.

    ``void cudnn::cnn::wgrad2d_grouped_direct_kernel<__half, float>(float)`` -> ``wgrad2d_grouped_direct_kernel``.
    A name that has no such parts, or none outside them, stays as it is.
    """
    head = re.split(r"[<(]", kernel.replace("(anonymous namespace)::", ""), maxsplit=1)[0]
    return head.rpartition("::")[2].rpartition(" ")[2] or kernel


def why_not(
    op_type: str | None,
    dtype: str | None,
    context: Context,
    aligned: bool | None,
    uses_tc: str | None,
    kernel: str | None = None,
) -> Blocker:
    """Return what keeps a capable op off the Tensor Cores; of kind ``none`` where nothing does.

    Args:
        op_type, dtype: of the op.
        context: the GPU to judge against.
        aligned: whether its contiguous dimensions fill 16-byte units, where known.
        uses_tc: what its kernels did; None where nothing was measured.
        kernel: the costliest of its kernels without Tensor Cores, where known.
    """
    if not context.nvidia:
        return Blocker("not_nvidia")
    if context.tensor_cores == "no":
        return Blocker("gpu")
    return tc_blocker(
        op_type or "",
        dtype,
        context.gpu,
        compute_capability=context.compute_capability,
        tf32_allowed=context.tf32_allowed,
        contiguous_dims_bytes_aligned=aligned,
        uses_tc=uses_tc,
        kernel=None if kernel is None else short_name(kernel),
    )
