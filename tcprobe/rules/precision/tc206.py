"""TC206: finds a precision that the GPU cannot compute fast."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tcprobe.hardware import Gpu
from tcprobe.rules.base import RuleDoc, Says, Subject
from tcprobe.rules.precision.policy import GUIDE, NEEDED, half_of, has_cores_for, policies_of, setters
from tcprobe.schema.finding import Finding, Severity
from tcprobe.schema.finding_kinds import FindingKind
from tcprobe.schema.place import Place
from tcprobe.schema.statement import Statement, say

DOC: Final = RuleDoc(
    code="TC206",
    name="gpu-lacks-precision",
    summary="The target GPU has no Tensor Cores for the precision that the model asks for.",
    explanation=(
        "float16 needs Tensor Cores to be fast: compute capability 7.0 or later, and not the chips of the GTX 16 "
        "series, which report 7.5, pass Keras' check and have none (mixed_float16 was measured 2 to 4 times slower "
        "than float32 there). bfloat16 needs 8.0: before it, it is computed as float32 with casts, and TensorFlow "
        "keeps convolutions in the slower layout. float8 needs 8.9.\n\n"
        "The other way round: float32 never uses the Tensor Cores of a V100 or a T4, which have no TF32, nor those of "
        "any later GPU with TF32 turned off. Mixed precision would."
    ),
    severity="warning where the precision is slow on that GPU; note where float32 leaves its Tensor Cores idle.",
    bad=(
        '# tcprobe audit-shapes --target-gpu t4 model.py\nkeras.mixed_precision.set_global_policy("mixed_bfloat16")\n'
    ),
    good=(
        '# tcprobe audit-shapes --target-gpu t4 model.py\nkeras.mixed_precision.set_global_policy("mixed_float16")\n'
    ),
    sources=(
        f"{GUIDE}, section Supported hardware: mixed_float16 needs compute capability 7.0",
        "tensorflow/tensorflow#44191, NVIDIA/TensorRT#892: TU116 and TU117 have no Tensor Cores; 2 to 4 times slower",
        "NVIDIA A100 whitepaper: BF16 and TF32 Tensor Cores came with compute capability 8.0; Ada whitepaper: FP8, 8.9",
        "TensorFlow, generic_layout_optimizer.cc: NHWC for bfloat16 from compute capability 8.0",
    ),
)
SAYS: Final[Says] = {
    "half_slower": (
        "{gpu} has no Tensor Cores in spite of compute capability {capability}",
        "mixed precision was 2 to 4 times slower than float32 on its kind; use float32",
    ),
    "half_saves_memory": (
        "{gpu} (compute capability {capability}) has no Tensor Cores",
        "{dtype} saves memory, not time",
    ),
    "dtype_without_cores": lambda fields: (
        "{gpu} (compute capability {capability}) has no {dtype} Tensor Cores, which came with {since}",
        f"use {'mixed_float16' if fields['dtype'] == 'bfloat16' else 'float16 or bfloat16'}",
    ),
    "cores_idle_tf32_off": (
        "float32 never uses the Tensor Cores of {gpu} (TF32 is turned off)",
        "mixed_bfloat16 or mixed_float16 would",
    ),
    "cores_idle_without_tf32": (
        "float32 never uses the Tensor Cores of {gpu} (it has no TF32)",
        "mixed_float16 would",
    ),
}

_TURING: Final = (7, 5)


def check(subject: Subject) -> Iterator[Finding]:
    """Yield at most one finding: what the target GPU cannot do or leaves idle."""
    dtype = _dtype(subject)
    target = subject.step.target
    verdict = None
    if dtype in NEEDED:
        verdict = _slow(dtype, target.gpu)
    elif dtype == "float32" and subject.model.products:
        verdict = _idle(target.gpu, tf32=target.tf32)
    if verdict is not None and dtype is not None:
        says, severity = verdict
        yield Finding(DOC.code, says, _place(subject), severity, dtype=dtype)


def _dtype(subject: Subject) -> str | None:
    """Return the dtype the model computes in: the one asked for, else its policy's, else that of all products."""
    if subject.step.dtype is not None:
        return subject.step.dtype
    policies = policies_of(subject)
    if len(policies) > 1:
        return None
    (policy,) = policies
    if policy is not None:
        return "float8" if policy.startswith("float8") else half_of(policy) or policy
    found = {product.record.dtype for product in subject.model.products}
    return found.pop() if len(found) == 1 else None


def _slow(dtype: str, gpu: Gpu) -> tuple[Statement[FindingKind], Severity] | None:
    if has_cores_for(gpu, dtype):
        return None
    capability = "{}.{}".format(*gpu.compute_capability)
    if gpu.tensor_cores:
        since = "{}.{}".format(*NEEDED[dtype])
        return say("dtype_without_cores", gpu=gpu.name, capability=capability, dtype=dtype, since=since), "warning"
    if gpu.compute_capability >= _TURING:
        return say("half_slower", gpu=gpu.name, capability=capability), "warning"
    return say("half_saves_memory", gpu=gpu.name, capability=capability, dtype=dtype), "warning"


def _idle(gpu: Gpu, *, tf32: bool) -> tuple[Statement[FindingKind], Severity] | None:
    has_tf32 = gpu.compute_capability >= NEEDED["bfloat16"]
    if not gpu.tensor_cores or (has_tf32 and tf32):
        return None
    return say("cores_idle_tf32_off" if has_tf32 else "cores_idle_without_tf32", gpu=gpu.name), "note"


def _place(subject: Subject) -> Place | None:
    """Return where the policy is set; None if no file sets it or several calls do."""
    found = [setter.place for source in subject.sources.values() for setter in setters(source)]
    return found[0] if len(found) == 1 else None
