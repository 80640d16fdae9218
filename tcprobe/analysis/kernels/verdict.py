"""Decide whether a kernel uses Tensor Cores, and in what precision, with the evidence.

A verdict rests, in this order, on hardware counters (`counters`), on the instruction tokens and families in
the full kernel name, on the dtype and shape of the op that launched it with the rate it reached, else it is
unknown. docs/classification.md says how well that does, and where names cannot tell.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from tcprobe.analysis.capability import dtype_blocker, operand_dtypes, supported_since
from tcprobe.analysis.kernels.names import MOVING, NAME_RULES
from tcprobe.analysis.kernels.precision import precision_of_dtype, precision_of_name, types_in_name
from tcprobe.analysis.kernels.rule import NameParts, Sought
from tcprobe.gemm.ops import conv_like
from tcprobe.hardware import FIRST_WITH_TENSOR_CORES, Capability, Gpu, spoken_name
from tcprobe.schema.kinds import UsesTc

# A GPU may run above the boost clock of its datasheet (H100: by 8 %), so a rate must exceed the peak by this factor.
CLOCK_MARGIN: Final = 1.25
# CUDA cores do half precision, and int8 dot products, at up to 4 times their float32 rate (A100: 78 against 19.5).
# Source: CUDA C++ Programming Guide, throughput of native arithmetic instructions; A100 whitepaper.
CUDA_CORE_FACTOR: Final = {"float32": 1.0, "float64": 1.0}
NARROW_FACTOR: Final = 4.0
# Winograd F(4x4, 3x3) needs a quarter of the multiplications that a convolution's shapes count (Lavin, Gray, 2015).
WINOGRAD_FACTOR: Final = 4.0
TRITON_GEMM: Final = "triton-gemm"
NARROW_FLOATS: Final = frozenset({"float16", "bfloat16", "half"})
_IN_ARGUMENTS: Final = [sought for rule in NAME_RULES for sought in rule.sought if sought.part == "argument"]


class Verdict(Struct, frozen=True):
    """What is known of a kernel."""

    uses_tc: UsesTc  # whether it uses Tensor Cores
    # counter (of the hardware), name (of the kernel), shape (dtype, shape and rate of its op), inferred (from the GPU);
    # None if unknown
    basis: Literal["counter", "name", "shape", "inferred"] | None
    evidence: str  # the token, rate or fact that decided, or why nothing does
    precision: str | None  # of its operands (fp16, bf16, tf32, fp8, fp4, int8, fp64, fp32); None where not told
    rule: str | None = None  # id of the rule that matched its name, None where none did


@lru_cache(maxsize=65536)
def classify(name: str, compute_capability: Capability | None = None, vendor: str | None = "Nvidia") -> Verdict:
    """Return what a kernel's name says, given the GPU that ran it.

    Args:
        name: full (demangled) kernel name; a short or mangled one tells less.
        compute_capability: of the GPU; None where unknown, then the name alone decides.
        vendor: of the GPU, as the profile has it; None counts as NVIDIA.
    """
    if vendor is not None and vendor.lower() != "nvidia":
        return Verdict("no", "inferred", f"{vendor} GPU, not an NVIDIA GPU: no Tensor Cores", None)
    found = by_name(name)
    if compute_capability is not None and compute_capability < FIRST_WITH_TENSOR_CORES:
        major, minor = compute_capability
        evidence = f"compute capability {major}.{minor}: the GPU has no Tensor Cores"
        return replace(found, uses_tc="no", basis="inferred", evidence=evidence, precision=precision_as(name, "no"))
    if found.uses_tc == "unknown" and found.precision == "fp64" and compute_capability is not None:
        return _in_float64(name, found, compute_capability)
    return found


def _in_float64(name: str, found: Verdict, capability: Capability) -> Verdict:
    """Decide a kernel whose name speaks of float64 alone, where Tensor Cores do not multiply it."""
    if supported_since("float64", capability) or types_in_name(NameParts.of(name)) != {"fp64"}:
        return found
    major, minor = capability
    evidence = f"float64 alone in its name: the Tensor Cores of compute capability {major}.{minor} do not multiply it"
    return replace(found, uses_tc="no", basis="inferred", evidence=evidence)


def may_multiply(verdict: Verdict) -> bool:
    """Say whether a kernel may multiply matrices: it does on Tensor Cores, or no rule says that it moves or maps."""
    return verdict.uses_tc == "yes" or verdict.rule not in MOVING


def precision_as(name: str, uses_tc: UsesTc) -> str | None:
    """Return the precision that a kernel's name tells if it uses Tensor Cores, or does not, whatever its name says."""
    return precision_of_name(NameParts.of(name), uses_tc, by_name(name).rule not in MOVING)


@lru_cache(maxsize=65536)
def by_name(text: str) -> Verdict:
    """Return what a kernel's name says on any GPU: the first rule that is found in one of its places."""
    name = NameParts.of(text)
    telling: frozenset[Sought] = frozenset().union(*map(_rules_of, name.arguments))
    for rule in NAME_RULES:
        for sought in rule.sought:
            if sought.part != "argument":
                token = name.token(sought)
            elif sought in telling:
                token = next(word for word in name.arguments if sought in _rules_of(word))
            else:
                continue
            if token is not None:
                precision = precision_of_name(name, rule.verdict, rule.multiplies)
                evidence = f"{token[:60]}: {rule.says}"
                return Verdict(
                    rule.verdict, None if rule.verdict == "unknown" else "name", evidence, precision, rule.id
                )
    return Verdict("unknown", None, "no rule knows this name", precision_of_name(name, "unknown", True))


@lru_cache(maxsize=65536)
def _rules_of(word: str) -> frozenset[Sought]:
    """Return what rules seek in template arguments and find in this identifier; names share most of theirs."""
    return frozenset(sought for sought in _IN_ARGUMENTS if sought.pattern.search(word))


def refine(
    verdict: Verdict,
    *,
    op_type: str | None,
    dtype: str | None,
    flops: float | None,
    duration_ns: float | None,
    gpu: Gpu | None,
    tf32: bool | None,
) -> Verdict:
    """Decide a kernel whose name cannot tell, from the op that launched it.

    Args:
        verdict: what the name says; returned unchanged unless it is unknown.
        op_type: type of the op.
        dtype: of its inputs, joined by + where they differ.
        flops: floating-point operations of all counted executions of the op, from its shapes.
        duration_ns: time of *all* kernels of those executions; that of one among several would overstate the rate.
        gpu: the GPU; None leaves the verdict unknown.
        tf32: whether float32 may be rounded to TF32.
    """
    if verdict.uses_tc != "unknown" or gpu is None:
        return verdict
    if not gpu.tensor_cores:
        return replace(verdict, uses_tc="no", basis="inferred", evidence=f"{gpu.name}: the GPU has no Tensor Cores")
    blocker = dtype_blocker(dtype, gpu, gpu.compute_capability, tf32)
    if blocker.kind in ("dtype", "tf32"):
        none = f"{blocker.dtype} cannot use {spoken_name(gpu.name)}'s Tensor Cores" if blocker.dtype else "TF32 off"
        return _decided(verdict, "no", f"launched by {_named(op_type, dtype)}: {none}", dtype)
    if flops and duration_ns and (rate := _beyond_cuda_cores(op_type, dtype, flops / duration_ns * 1e9, gpu)):
        return _decided(verdict, "yes", f"launched by {_named(op_type, dtype)}: {rate}", dtype)
    if verdict.rule == TRITON_GEMM and blocker.kind == "none" and set(operand_dtypes(dtype)) <= NARROW_FLOATS:
        evidence = f"{verdict.evidence}; Triton multiplies {dtype} with MMA instructions on this GPU"
        return _decided(verdict, "yes", evidence, dtype)
    return verdict


def _named(op_type: str | None, dtype: str | None) -> str:
    return f"{op_type or 'an op'} on {dtype}"


def _decided(verdict: Verdict, uses_tc: UsesTc, evidence: str, dtype: str | None) -> Verdict:
    dtypes = operand_dtypes(dtype)
    precision = verdict.precision or precision_of_dtype(dtypes[0] if len(dtypes) == 1 else None, uses_tc)
    return replace(verdict, uses_tc=uses_tc, basis="shape", evidence=evidence, precision=precision)


def _beyond_cuda_cores(op_type: str | None, dtype: str | None, rate: float, gpu: Gpu) -> str | None:
    """Say how a rate in FLOP/s exceeds what CUDA cores can do for this op; None where it does not."""
    peak = gpu.peak_flop_per_s("float32")
    dtypes = operand_dtypes(dtype)
    if peak is None or not dtypes:
        return None
    factor = max(CUDA_CORE_FACTOR.get(d, NARROW_FACTOR) for d in dtypes)
    if conv_like(op_type):
        factor *= WINOGRAD_FACTOR
    limit = peak * factor * CLOCK_MARGIN
    if rate <= limit:
        return None
    return f"{rate / 1e12:.1f} TFLOP/s, beyond the {limit / 1e12:.1f} that CUDA cores of a {gpu.name} can reach"
