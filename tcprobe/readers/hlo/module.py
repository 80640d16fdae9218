"""Read an HLO module from its protobuf: computations, instructions, and what matters of them for shapes.

Messages and field numbers follow xla/service/hlo.proto and xla/xla_data.proto (openxla/xla, 2026).
"""

from __future__ import annotations

import json
from typing import Any, Final

from msgspec import Struct, field

from tcprobe.gemm.record import join_dtypes
from tcprobe.readers.protobuf import BYTES, VARINT, Buffer, Span, fields, signed, text, varint

# xla_data.proto, enum PrimitiveType
ELEMENT_TYPES: Final = {
    1: "bool",
    2: "int8",
    3: "int16",
    4: "int32",
    5: "int64",
    6: "uint8",
    7: "uint16",
    8: "uint32",
    9: "uint64",
    10: "float16",
    11: "float32",
    12: "float64",
    15: "complex64",
    16: "bfloat16",
    18: "complex128",
    19: "float8_e5m2",
    20: "float8_e4m3fn",
    21: "int4",
    22: "uint4",
    23: "float8_e4m3b11fnuz",
    24: "float8_e5m2fnuz",
    25: "float8_e4m3fnuz",
    28: "float8_e4m3",
    29: "float8_e3m4",
    32: "float4_e2m1fn",
    33: "float8_e8m0fnu",
}
MOST_DEPTH: Final = 32  # nesting of tuple shapes and of called computations

DOT_NUMBERS: Final = {
    1: "lhs_contracting_dimensions",
    2: "rhs_contracting_dimensions",
    3: "lhs_batch_dimensions",
    4: "rhs_batch_dimensions",
}
CONVOLUTION_NUMBERS: Final = {
    3: "kernel_input_feature_dimension",
    4: "kernel_output_feature_dimension",
    6: "kernel_spatial_dimensions",
    7: "input_batch_dimension",
    8: "input_feature_dimension",
    9: "output_batch_dimension",
    10: "output_feature_dimension",
    11: "input_spatial_dimensions",
    12: "output_spatial_dimensions",
}
WINDOW: Final = {
    1: "size",
    2: "stride",
    3: "padding_low",
    4: "padding_high",
    5: "window_dilation",
    6: "base_dilation",
    7: "window_reversal",
}


class HloShape(Struct, frozen=True):
    """Shape of an array, or the shapes of a tuple's `parts`."""

    dtype: str | None = None
    dimensions: tuple[int, ...] = ()
    parts: tuple[HloShape, ...] = ()

    @property
    def array(self) -> HloShape:
        """The shape itself, or of a tuple its first array (a custom call's result, before its workspace)."""
        return self.parts[0].array if self.parts else self


class Instruction(Struct):
    """One HLO instruction; `attributes` hold dimension numbers under the names of their messages."""

    name: str = ""
    opcode: str = ""
    id: int = 0
    shape: HloShape = field(default_factory=HloShape)
    op_name: str = ""
    op_type: str = ""
    target: str = ""
    fusion_kind: str = ""  # kLoop, kInput, kOutput, kCustom
    backend_config: str = ""
    operands: list[int] = field(default_factory=list)
    calls: list[int] = field(default_factory=list)
    attributes: dict[str, Any] = field(default_factory=dict)


class Module(Struct):
    """One HLO module."""

    name: str  # with the program id, as in /host:metadata
    entry: int = 0  # id of the computation that runs
    computations: dict[int, list[Instruction]] = field(default_factory=dict)  # id -> instructions
    by_name: dict[str, Instruction] = field(default_factory=dict)  # instruction names are unique in a module
    by_id: dict[int, Instruction] = field(default_factory=dict)  # instruction ids are unique in a module
    # of each computation with products, the instructions that lead to them; None until somebody asks
    telling: dict[int, list[Instruction]] | None = None

    def operands(self, instruction: Instruction) -> list[HloShape]:
        """Return the shapes of the operands that the module holds."""
        return [self.by_id[i].shape.array for i in instruction.operands if i in self.by_id]


def read_module(name: str, data: Buffer, span: Span) -> Module:
    """Return the module of a serialised HloProto.

    Raises:
        DamagedError: the bytes are no HloProto.
    """
    module = Module(name)
    for number, wire, first, last in fields(data, span):
        if number == 1 and wire == BYTES:
            _read_computations(module, data, (first, last))
    return module


def _read_computations(module: Module, data: Buffer, span: Span) -> None:
    for number, wire, first, last in fields(data, span):
        if number == 6 and wire == VARINT:
            module.entry = signed(first)
        elif number == 3 and wire == BYTES:
            _read_computation(module, data, (first, last))


def _read_computation(module: Module, data: Buffer, span: Span) -> None:
    key, found = 0, []
    for number, wire, first, last in fields(data, span):
        if number == 5 and wire == VARINT:
            key = signed(first)
        elif number == 2 and wire == BYTES:
            found.append(_instruction(data, (first, last)))
    module.computations[key] = found
    module.by_name.update((i.name, i) for i in found)
    module.by_id.update((i.id, i) for i in found)


def _instruction(data: Buffer, span: Span) -> Instruction:
    made = Instruction()
    for number, wire, first, last in fields(data, span):
        at = first, last
        if number in _INTS:
            getattr(made, _INTS[number]).extend(_ints(data, wire, at))
        elif wire == VARINT and number == 35:
            made.id = signed(first)
        elif wire == VARINT and number in _GROUPS and signed(first) > 1:
            made.attributes[_GROUPS[number]] = first
        elif wire == BYTES and number in _TEXTS:
            setattr(made, _TEXTS[number], text(data, at))
        elif wire == BYTES and number == 3:
            made.shape = _shape(data, at)
        elif wire == BYTES and number == 7:
            _read_metadata(made, data, at)
        elif wire == BYTES and number == 15:
            axes = [_numbers(data, axis[2:], WINDOW) for axis in fields(data, at) if axis[:2] == (1, BYTES)]
            made.attributes["window"] = {"dimensions": axes}
        elif wire == BYTES and number in _NUMBERS:
            name, names = _NUMBERS[number]
            made.attributes[name] = _numbers(data, at, names)
    return made


_TEXTS: Final = {1: "name", 2: "opcode", 11: "fusion_kind", 28: "target", 43: "backend_config"}
_INTS: Final = {36: "operands", 38: "calls"}
_GROUPS: Final = {50: "feature_group_count", 58: "batch_group_count"}
_NUMBERS: Final = {
    16: ("convolution_dimension_numbers", CONVOLUTION_NUMBERS),
    30: ("dot_dimension_numbers", DOT_NUMBERS),
}


def _read_metadata(made: Instruction, data: Buffer, span: Span) -> None:
    for number, wire, first, last in fields(data, span):
        if wire == BYTES and number in (1, 2):
            setattr(made, "op_type" if number == 1 else "op_name", text(data, (first, last)))


def _shape(data: Buffer, span: Span, depth: int = 0) -> HloShape:
    dtype, dimensions, parts = None, [], []
    for number, wire, first, last in fields(data, span):
        if number == 2 and wire == VARINT:
            dtype = ELEMENT_TYPES.get(first)
        elif number == 3:
            dimensions += _ints(data, wire, (first, last))
        elif number == 4 and wire == BYTES and depth < MOST_DEPTH:
            parts.append(_shape(data, (first, last), depth + 1))
    return HloShape(dtype, tuple(dimensions), tuple(parts))


def _ints(data: Buffer, wire: int, span: Span) -> list[int]:
    """Return the integers of a repeated field, packed or one by one."""
    return [signed(span[0])] if wire == VARINT else packed(data, span)


def packed(data: Buffer, span: Span) -> list[int]:
    """Return the integers of a packed repeated field."""
    at, found = span[0], []
    while at < span[1]:
        value, at = varint(data, at, span[1])
        found.append(signed(value))
    return found


def _numbers(data: Buffer, span: Span, names: dict[int, str]) -> dict[str, Any]:
    """Return a message of integers by field name; fields with a plural name are lists."""
    made: dict[str, Any] = {n: [] if n.endswith("_dimensions") else 0 for n in names.values()}
    for number, wire, first, last in fields(data, span):
        name = names.get(number, "")
        if name.endswith("_dimensions"):
            made[name] += _ints(data, wire, (first, last))
        elif name and wire == VARINT:
            made[name] = signed(first)
    return made


def shapes_json(shapes: list[HloShape]) -> str:
    """Return the dimensions of arrays as a JSON list."""
    return json.dumps([list(s.dimensions) for s in shapes])


def dtypes_of(shapes: list[HloShape]) -> str | None:
    """Return the dtypes of arrays joined by ``+``; None where one is unknown."""
    found = [s.dtype for s in shapes if s.dtype is not None]
    return join_dtypes(found) if len(found) == len(shapes) else None
