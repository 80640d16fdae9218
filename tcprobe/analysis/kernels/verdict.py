"""Decide whether a kernel uses Tensor Cores, and in what precision, with the evidence.

A verdict rests, in this order, on hardware counters (`counters`), on the instruction tokens and families in
the full kernel name, on the dtype and shape of the op that launched it with the rate it reached, else it is
unknown. docs/classification.md says how well that does, and where names cannot tell.

Tell the precision of a kernel's operands (not of its accumulator) by its name.

Take a user's word for kernels whose names do not tell.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from tcprobe.analysis.capability import dtype_blocker, operand_dtypes, supported_since
from tcprobe.analysis.kernels.names import MOVING, NAME_RULES
from tcprobe.analysis.kernels.rule import NameParts, Sought
from tcprobe.gemm.ops import conv_like
from tcprobe.hardware import FIRST_WITH_TENSOR_CORES, Capability, Gpu, spoken_name
from tcprobe.schema.columns import Table
from tcprobe.schema.kinds import NamedKernel, UsesTc

# dtype as an op names it -> precision; float32 is decided by whether the kernel uses Tensor Cores
OF_DTYPE: Final = {
    "float16": "fp16",
    "half": "fp16",
    "bfloat16": "bf16",
    "float64": "fp64",
    "double": "fp64",
    "int8": "int8",
    "uint8": "int8",
    "float8_e4m3fn": "fp8",
    "float8_e5m2": "fp8",
    "float4_e2m1fn": "fp4",
}
# Types as identifiers hold them; libraries write operands before results
_OPERAND: Final = re.compile(
    r"""
    (?P<fp4> (?<![a-z0-9])(?:nvfp4 | mxf?p?4 | (?:mx)?e2m1 | ue\dm\dx(?:f4|e2m1) | f4(?=f4|_)) )
    | (?P<fp8> (?<![a-z])(?:h?fp8 | f8(?!\d) | (?:mx)?e4m3 | (?:mx)?e5m2 | ue\dm\dxe\dm\d | mxfp8 | float_e[45]m[23])
      | (?<=qkv)e4m3 )
    | (?P<bf16> (?:(?<![a-z])|(?<=qkv))(?:bf16 | bfloat16) )
    | (?P<tf32> (?<![a-z])(?:tf32 | tfloat32) )
    | (?P<fp16> (?<![a-z0-9])f16 | (?:(?<![a-z])|(?<=qkv))(?:fp16 | half) )
    | (?P<int8> (?<![a-z0-9])(?:int8 | [isu]8(?![0-9])) | (?:un)?signed\ char )
    | (?P<int4> integer_subbyte | (?<![a-z0-9])(?:int4 | [su]4(?![0-9])) )
    | (?P<fp64> (?<![a-z0-9])(?:f64 | fp64 | double)(?!\d) )
    | (?P<fp32> (?<![a-z0-9])(?:f32 | fp32 | float)(?!\d) )
    """,
    re.IGNORECASE | re.VERBOSE,
)
# an identifier, or a type of two words; that in parentheses casts a number
_WORD: Final = re.compile(r"(?<!\()(?:un)?signed char|[A-Za-z_]\w*")
# what CUDA cores store but do not compute with, but for integer dot products
_NARROW: Final = frozenset({"int8", "int4", "fp8", "fp4"})
# cuDNN writes f16 for both 16-bit types in the names of its attention kernels
_SIXTEEN_BIT: Final = re.compile(r"cudnn_generated_\w{0,80}?sdpa_(?!\w{0,80}?bf16)\w{0,80}?f16")
# triton_kernels names result, operand and weight, in this order
_OGS: Final = re.compile(r"matmul_ogs_[NT]{3}_[a-z0-9]+x(bf16|fp16|fp8)")
_NVJET: Final = re.compile(r"(?<![a-z])nvjet_(?:sm\d+\w?_)?([a-z])[a-z]{2,4}_")
_NVJET_OPERAND: Final = {"t": "bf16", "h": "fp16", "s": "tf32", "q": "fp8", "o": "fp4", "d": "fp64", "i": "int8"}
_SHAPE: Final = re.compile(
    r"(?<![a-z0-9])([hsdiczq])(884|1688|16816|16832|8816|161616|\d+x\d+x\d+)(?!\d)", re.IGNORECASE
)
_MMA: Final = re.compile(r"(?<![a-z])([hidq])g?mma(?![a-z])", re.IGNORECASE)
_LETTER: Final = {"h": "fp16", "i": "int8", "d": "fp64", "z": "fp64", "q": "fp8"}
_BLAS: Final = re.compile(r"(?<![a-z])g?([sdczhi])(?:gemm|cudnn)", re.IGNORECASE)
_BLAS_LETTER: Final = {"s": "fp32", "c": "fp32", "d": "fp64", "z": "fp64", "h": "fp16", "i": "int8"}
_BEFORE_AMPERE: Final = re.compile(r"volta|turing|sm7\d|_7[05]_", re.IGNORECASE)


def precision_of_name(name: NameParts, uses_tc: UsesTc, multiplies: bool) -> str | None:
    """Return fp16, bf16, tf32, fp8, fp4, int8, fp64 or fp32 as the name tells; None where it does not.

    Template arguments tell first, then the function's own name, then its parameters; result type and scopes do not.

    Args:
        name: of the kernel.
        uses_tc: its verdict; a Tensor Core kernel never multiplies fp32, which then names the accumulator.
        multiplies: whether it may multiply; else 8-bit and narrower types are those of what it moves or converts.
    """
    function = name.texts["function"]
    if found := _NVJET.search(function):
        return _NVJET_OPERAND.get(found[1])
    if found := _OGS.search(function):
        return found[1]
    if _SIXTEEN_BIT.search(function):
        return None
    ignored = {"fp32"} if uses_tc == "yes" else set() if multiplies else _NARROW
    for part in (name.name.arguments, function, name.name.parameters):
        for word in _WORD.findall(part or ""):
            for operand in _operands(word):
                if operand not in ignored:
                    return None if operand == "int4" else operand
    return _from_letter(function, name.arguments, uses_tc)


def types_in_name(name: NameParts) -> frozenset[str]:
    """Return every precision that template arguments, function or parameters name; int4 too."""
    parts = (name.name.arguments, name.texts["function"], name.name.parameters)
    return frozenset(operand for part in parts for word in _WORD.findall(part or "") for operand in _operands(word))


@lru_cache(maxsize=65536)
def _operands(word: str) -> tuple[str, ...]:
    """Return the types that one word names, in their order; names share most of their words."""
    return tuple(found.lastgroup or "" for found in _OPERAND.finditer(word))


def _from_letter(function: str, arguments: tuple[str, ...], uses_tc: UsesTc) -> str | None:
    """Read the operand letter of an MMA shape or instruction, or of a BLAS routine."""
    if uses_tc != "yes":
        found = _BLAS.search(function)
        return _BLAS_LETTER[found[1].lower()] if found else None
    text = " ".join((function, *arguments))
    if found := _SHAPE.search(text):
        letter, shape = found[1].lower(), found[2]
        if letter in "sc":
            return _single(text, shape)
        return _LETTER[letter]
    if found := _MMA.search(text):
        return _LETTER[found[1].lower()]
    return None


def _single(text: str, shape: str) -> str | None:
    """Tell what accumulates in float32: m8n8k4 takes fp16 only; m16n8k8 without a type is TF32 from Ampere on."""
    if shape == "884" or _BEFORE_AMPERE.search(text):
        return "fp16"
    return "tf32" if shape == "1688" else None


def precision_of_dtype(dtype: str | None, uses_tc: str, multiplies: bool = True) -> str | None:
    """Return the precision that an op's dtype implies for its kernels; None where it does not.

    Args:
        dtype: as ops spell it.
        uses_tc: verdict on the kernel.
        multiplies: whether the kernel may multiply; else 8-bit and narrower types are only stored.
    """
    if dtype is None:
        return None
    if dtype in ("float32", "float"):
        return {"yes": "tf32", "no": "fp32"}.get(uses_tc)
    found = OF_DTYPE.get(dtype)
    return found if multiplies or found not in _NARROW else None


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


def with_words(kernels: Table, words: Sequence[NamedKernel]) -> Table:
    """Return the kernels table with what the user says of kernels of unknown class or kind; the first word counts."""
    if not words:
        return kernels
    of_name = {name: _word(name, words) for name in kernels.names("kernel").names}
    columns = {name: kernels.values(name) for name in ("kernel", "uses_tc", "basis", "evidence", "kind")}
    for row, name in enumerate(columns["kernel"]):
        word = of_name[str(name)]
        if word is None:
            continue
        if columns["uses_tc"][row] == "unknown" and word.uses_tc != "unknown":
            columns["uses_tc"][row], columns["basis"][row] = word.uses_tc, "user"
            columns["evidence"][row] = f"{word.why} ({word.pattern} in pyproject.toml)"
        if columns["kind"][row] == "unknown":
            columns["kind"][row] = word.kind
    return kernels.with_columns(**columns)


def _word(name: str, words: Sequence[NamedKernel]) -> NamedKernel | None:
    function = NameParts.of(name).texts["function"]
    return next((one for one in words if any(fnmatchcase(text, one.pattern) for text in (name, function))), None)
