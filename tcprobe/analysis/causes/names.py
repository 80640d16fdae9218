"""Tell causes by kernels' own names and counters: of kernels of no op, and of Tensor Core kernels without shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tcprobe.analysis.capability import NONE, dtype_blocker
from tcprobe.analysis.causes.kernels import Kernel
from tcprobe.analysis.causes.speed import WELL_PCT
from tcprobe.analysis.context import tf32_asked
from tcprobe.analysis.kernels.counters import Counters
from tcprobe.analysis.kernels.details import details_of
from tcprobe.analysis.kernels.parts import part_of, transforms
from tcprobe.analysis.kernels.table import Device, devices_of
from tcprobe.analysis.kernels.verdict import by_name, may_multiply
from tcprobe.analysis.ops.table import NO_OP
from tcprobe.gemm.alignment import is_aligned
from tcprobe.hardware import Capability
from tcprobe.schema.kinds import PRODUCTS, CauseKind
from tcprobe.schema.profile import Profile

# precision of a kernel -> dtype of its op
_DTYPES: Final = {
    "fp16": "float16", "bf16": "bfloat16", "tf32": "float32", "fp32": "float32", "fp64": "float64", "int8": "int8",
    "fp8": "float8_e4m3fn", "fp4": "float4_e2m1fn",
}  # fmt: skip
# The least compute capability of a GPU that runs a kernel built for these; older kernels run on any GPU
_PROVES: Final[dict[str, Capability]] = {
    "ampere": (8, 0), "ada": (8, 9), "hopper": (9, 0), "blackwell": (10, 0),
}  # fmt: skip


def set_causes_by_name(kernels: Sequence[Kernel], profile: Profile) -> None:
    """Set the causes that no op tells: why a product is off the Tensor Cores, and how well others use them.

    Args:
        kernels: with the causes that their ops tell.
        profile: for its GPUs and counters.
    """
    devices, counters, tf32 = devices_of(profile), Counters.of(profile), tf32_asked(profile)
    only = next(iter(devices.values())) if len(devices) == 1 else Device()
    proved: dict[int | None, Capability] = {}
    for kernel in kernels:
        if least := _PROVES.get(details_of(kernel.name).generation or ""):
            proved[kernel.device] = max(least, proved.get(kernel.device, least))
    rounded = {(one.device, one.kind) for one in kernels if one.precision == "tf32" and one.uses_tc == "yes"}
    for kernel in kernels:
        least = proved.get(kernel.device)
        if kernel.cause == "op_unknown" or (kernel.cause == "gpu_unknown" and kernel.kind in PRODUCTS and least):
            device = only if kernel.device is None else devices.get(kernel.device, only)
            # a product in TF32 ran: it is allowed for its kind, and the library that chose float32 had the choice
            rounds = True if (kernel.device, kernel.kind) in rounded else tf32
            kernel.cause = _without_op(kernel, device, least, rounds)
        elif kernel.cause == "none" and kernel.uses_tc == "yes":
            kernel.cause = _on_tensor_cores(kernel, counters)
    _set_causes_of_transforms(kernels)
    _set_causes_of_helpers(kernels)


def _set_causes_of_helpers(kernels: Sequence[Kernel]) -> None:
    """Count helpers of no op with the products on Tensor Cores, on GPUs on which all products are there."""
    multiply = [one for one in kernels if one.kind in PRODUCTS or (one.kind == "unknown" and one.uses_tc != "no")]
    off = {one.device for one in multiply if one.uses_tc != "yes"}
    on = {one.device for one in multiply} - off
    for kernel in kernels:
        if kernel.cause == "op_unknown" and kernel.kind == "helper" and kernel.device in on:
            kernel.cause = "none"


def _set_causes_of_transforms(kernels: Sequence[Kernel]) -> None:
    """Give what only transforms operands of convolutions (im2col, Winograd, FFT) the cause of the GPU's costliest one.

    That is of convolutions without op off the Tensor Cores; where none is known, they stay unknown.
    """
    costliest: dict[int | None, Kernel] = {}
    for kernel in kernels:
        if kernel.op[0] == NO_OP and kernel.kind == "convolution" and kernel.uses_tc == "no":
            costliest[kernel.device] = max(kernel, costliest.get(kernel.device, kernel), key=lambda one: one.rank)
    for kernel in kernels:
        if kernel.cause == "op_unknown" and kernel.kind == "helper" and transforms(kernel.name):
            kernel.cause = costliest[kernel.device].cause if kernel.device in costliest else "op_unknown"


def _without_op(kernel: Kernel, device: Device, proved: Capability | None, tf32: bool | None) -> CauseKind:
    """Return why a kernel of no op does not use Tensor Cores, as far as its name and the GPU tell.

    Args:
        kernel: of class no or unknown.
        device: that ran it.
        proved: least compute capability of that GPU, by the kernels that it ran.
        tf32: whether float32 may be rounded to TF32.
    """
    if kernel.uses_tc == "unknown":
        return "kernels_unknown"
    if kernel.kind not in PRODUCTS:
        if device.tensor_cores != "no" and _is_layout_of_cudnn(kernel.name):
            return "layout"
        unknown = kernel.kind == "unknown" and may_multiply(by_name(kernel.name))
        return "op_unknown" if unknown or kernel.kind == "helper" else "type"
    if device.vendor is not None and device.vendor.lower() != "nvidia":
        return "not_nvidia"
    if device.tensor_cores == "no":
        return "gpu"
    capability = device.capability or proved
    if capability is None:
        return "gpu_unknown"
    blocker = dtype_blocker(_DTYPES.get(kernel.precision or ""), device.gpu, capability, tf32)
    if device.capability is None and blocker.kind == "dtype":
        return "gpu_unknown"  # a later GPU may take it
    return "library" if blocker == NONE else blocker.kind


def _is_layout_of_cudnn(name: str) -> bool:
    """Say whether a kernel is cuDNN's own change of layout, which it launches around its convolutions alone."""
    return details_of(name).library == "cudnn" and part_of(name) == "layout"


def _on_tensor_cores(kernel: Kernel, counters: Counters) -> CauseKind:
    """Return how well a kernel uses Tensor Cores, by its counters, else by the alignment in its name."""
    active = counters.pipe_pct(kernel.name, kernel.device)
    if active is not None and active >= WELL_PCT:
        return "tc_well"
    if misaligned(kernel):
        return "tc_misaligned"
    return "none" if active is None else "tc_slow"


def misaligned(kernel: Kernel) -> bool:
    """Say whether a Tensor Core kernel loads less than 16 bytes at once: the library had to choose it for a size.

    Those of float64 always load 8.
    """
    return (
        kernel.precision != "fp64"
        and is_aligned(details_of(kernel.name).alignment, _DTYPES.get(kernel.precision or "")) is False
    )
