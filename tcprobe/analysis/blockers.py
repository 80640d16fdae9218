"""Whether an op could use Tensor Cores and what keeps it off them, on the GPU at hand."""

from __future__ import annotations

from collections.abc import Iterable

from tcprobe.analysis.capability import tc_blocker, tc_capable
from tcprobe.analysis.context import Context


def is_capable(op_types: Iterable[str | None]) -> str:
    """Return yes where one of an op's types has a Tensor Core kernel, no where none has, else unknown."""
    answers = {tc_capable(op_type) for op_type in op_types if op_type is not None}
    if "yes" in answers:
        return "yes"
    return "no" if answers == {"no"} else "unknown"


def why_not(op_type: str | None, dtype: str | None, context: Context, aligned: bool | None, uses_tc: str | None) -> str:
    """Return what keeps a capable op off the Tensor Cores; ``none`` where nothing does.

    Args:
        op_type, dtype: of the op.
        context: the GPU to judge against.
        aligned: whether its contiguous dimensions fill 16-byte units, where known.
        uses_tc: what its kernels did; None where nothing was measured.
    """
    if not context.nvidia:
        return "not an NVIDIA GPU"
    if context.tensor_cores == "no":
        return "GPU has no Tensor Cores"
    return tc_blocker(
        op_type or "",
        dtype,
        context.gpu,
        compute_capability=context.compute_capability,
        tf32_allowed=context.tf32_allowed,
        contiguous_dims_bytes_aligned=aligned,
        uses_tc=uses_tc,
    ).text
