"""Tell the precision of a kernel's operands (not of its accumulator) by its name."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from tcprobe.analysis.kernels.rule import NameParts
from tcprobe.schema.kinds import UsesTc

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
