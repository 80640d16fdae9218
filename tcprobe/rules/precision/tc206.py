"""TC206: a precision that the GPU cannot compute fast."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tcprobe.hardware import Gpu
from tcprobe.rules.base import RuleDoc, Subject
from tcprobe.rules.precision.policy import GUIDE, NEEDED, half_of, has_cores_for, policy_of, setters
from tcprobe.schema.finding import Finding, Severity
from tcprobe.schema.place import Place

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

_TURING: Final = (7, 5)


def check(subject: Subject) -> Iterator[Finding]:
    """Yield at most one finding: what the target GPU cannot do, or leaves idle."""
    dtype = _dtype(subject)
    target = subject.step.target
    verdict = None
    if dtype in NEEDED:
        verdict = _slow(dtype, target.gpu)
    elif dtype == "float32" and subject.model.products:
        verdict = _idle(target.gpu, tf32=target.tf32)
    if verdict is not None and dtype is not None:
        message, severity = verdict
        yield Finding(DOC.code, message, _place(subject), severity, dtype=dtype)


def _dtype(subject: Subject) -> str | None:
    """Return what the model computes in: as asked for, else by its policy, else by all its products alike."""
    if subject.step.dtype is not None:
        return subject.step.dtype
    policy = policy_of(subject)
    if policy is not None:
        return "float8" if policy.startswith("float8") else half_of(policy) or policy
    found = {product.record.dtype for product in subject.model.products}
    return found.pop() if len(found) == 1 else None


def _slow(dtype: str, gpu: Gpu) -> tuple[str, Severity] | None:
    needed = NEEDED[dtype]
    if has_cores_for(gpu, dtype):
        return None
    major, minor = gpu.compute_capability
    if not gpu.tensor_cores and gpu.compute_capability >= _TURING:
        text = (
            f"{gpu.name} has no Tensor Cores in spite of compute capability {major}.{minor}: mixed precision was 2 to "
            "4 times slower than float32 on its kind; use float32"
        )
    elif not gpu.tensor_cores:
        text = f"{gpu.name} (compute capability {major}.{minor}) has no Tensor Cores: {dtype} saves memory, not time"
    else:
        text = (
            f"{gpu.name} (compute capability {major}.{minor}) has no {dtype} Tensor Cores, which came with "
            f"{needed[0]}.{needed[1]}: use {'mixed_float16' if dtype == 'bfloat16' else 'float16 or bfloat16'}"
        )
    return text, "warning"


def _idle(gpu: Gpu, *, tf32: bool) -> tuple[str, Severity] | None:
    has_tf32 = gpu.compute_capability >= NEEDED["bfloat16"]
    if not gpu.tensor_cores or (has_tf32 and tf32):
        return None
    why = "TF32 is turned off" if has_tf32 else "it has no TF32"
    policy = "mixed_bfloat16 or mixed_float16" if has_tf32 else "mixed_float16"
    return f"float32 never uses the Tensor Cores of {gpu.name} ({why}): {policy} would", "note"


def _place(subject: Subject) -> Place | None:
    """Return where the policy is set; None where no file sets it, or several calls do."""
    found = [setter.place for source in subject.sources.values() for setter in setters(source)]
    return found[0] if len(found) == 1 else None
