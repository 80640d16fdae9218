"""What kernels that multiply nothing must read and write, by the shapes of their ops."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from tcprobe.gemm.alignment import bytes_of
from tcprobe.gemm.record import parse_json_shapes, parse_shape
from tcprobe.schema.columns import Row
from tcprobe.schema.kinds import KernelKind
from tcprobe.schema.op import Shape, product

_PARTLY: Final = re.compile(r"(?i)slice|gather|scatter|index|embedding|split|unstack|unbind|chunk|pad")
"""Ops, or parts of compiled ones, that read a part of what they are given, or write one of several results."""
_OTHER_TYPE: Final = re.compile(
    r"(?i)cast|convert|_?to(?:_copy)?_?|copy_?|clone|(?:not_?)?equal|greater\w*|less\w*|logical\w*|is_?(?:finite|nan|inf)"
    r"|[gl][te]_?|eq_?|ne_?|where|select\w*|bitwise\w*|arg_?m(?:ax|in)"
)
"""Types of ops whose result may be of another type than what they read."""
_PRECISIONS: Final = {"fp64": 8, "fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2, "fp8": 1, "int8": 1}


class Moved(NamedTuple):
    """Bytes that one execution of an op must read and write at least, where nothing stays in a cache."""

    read: float
    written: float


def moved_by(op: Row, kind: KernelKind, kernel: str, precision: str | None) -> Moved | None:
    """Return what an op must read and write; None where its shapes or types do not tell all of it.

    An element of a result reads one element of each operand: what is larger (a view, a slice) is not read whole. Only
    reductions, normalisations, softmax and compiled fusions read more than they write.

    Args:
        op: of `op_details`.
        kind: what its kernel does.
        kernel: name of it.
        precision: of its operands, by the kernel, where the op has no dtype.
    """
    kind_of_op = str(op["op_type"] or "").rpartition("::")[2]
    if _PARTLY.search(kind_of_op) or (kind == "fusion" and _PARTLY.search(kernel)):
        return None
    dtype = None if op["dtype"] is None else str(op["dtype"])
    width = bytes_of(dtype) if dtype else _PRECISIONS.get(precision or "")
    shapes = parse_json_shapes(_text(op, "input_shapes"))
    inputs = [_elements(shape) for shape in shapes]
    result = _result(parse_shape(_text(op, "output_shape")), shapes, kind)
    if width is None or not inputs or None in inputs or result is None:
        return None
    wide = bytes_of(_text(op, "output_dtype")) if op["output_dtype"] else None
    if wide is None and (op["hlo_op"] is not None or _OTHER_TYPE.fullmatch(kind_of_op) or kind == "copy"):
        return None
    whole = kind in ("reduction", "normalisation", "softmax", "fusion")
    read = sum(size if whole else min(size, result) for size in inputs if size is not None)
    return Moved(float(width * read), float((wide or width) * result))


def _result(output: Shape | None, inputs: tuple[Shape | None, ...], kind: KernelKind) -> int | None:
    """Return the elements of a result: where its shape is not recorded, of what has the shape of its operands."""
    if output is not None:
        return product(output)
    known = [shape for shape in inputs if shape is not None]
    if len(known) < len(inputs) or not known:
        return None
    if kind in ("normalisation", "softmax"):
        sizes = [_elements(shape) for shape in known]
        return None if None in sizes else max(size or 0 for size in sizes)
    if kind != "elementwise":
        return None
    rank = max(map(len, known))
    padded = [(1,) * (rank - len(shape)) + shape for shape in known]
    if any(size is None for shape in padded for size in shape):
        return None
    return product(max(size or 0 for size in sizes) for sizes in zip(*padded, strict=True))


def _elements(shape: Shape | None) -> int | None:
    return None if shape is None else product(shape)


def _text(op: Row, column: str) -> str | None:
    return None if op[column] is None else str(op[column])
