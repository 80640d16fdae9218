"""Multiplications of MatMul and BatchMatMul, from shapes and transposes."""

from __future__ import annotations

from itertools import product as combinations

from tcprobe.gemm.record import first_known
from tcprobe.schema.op import UNKNOWN_GEMM, Contiguous, Gemm, OpRecord, Shape, Size, product


def matmul_gemms(op: OpRecord) -> list[Gemm]:
    """Return the multiplication of a MatMul or BatchMatMul.

    If the right-hand side has no batch dimensions, all rows form one multiplication (a Dense layer on sequences).
    Without the transpose attributes, the sizes are known only if the shapes allow a single reading.
    """
    a, b = op.shape(0), op.shape(1)
    if a is None or b is None or len(a) < 2 or len(b) < 2:
        return [UNKNOWN_GEMM]
    transposes = transposes_of(op, a, b)
    return [UNKNOWN_GEMM if transposes is None else _gemm(op, a, b, transposes)]


def transposes_of(op: OpRecord, a: Shape, b: Shape) -> tuple[bool, bool] | None:
    """Return whether each operand is transposed; None if neither attributes nor shapes tell."""
    given = [
        op.attributes.get(x, op.attributes.get(y)) for x, y in (("transpose_a", "adj_x"), ("transpose_b", "adj_y"))
    ]
    if any(flag is not None for flag in given):
        return bool(given[0]), bool(given[1])
    fits = [(x, y) for x, y in combinations((False, True), repeat=2) if _fits(a, b, op.output_shape, x, y)]
    return fits[0] if len(fits) == 1 else None


def _fits(a: Shape, b: Shape, out: Shape | None, flip_a: bool, flip_b: bool) -> bool:
    rows, inner_a = _flip(a, flip_a)
    inner_b, columns = _flip(b, flip_b)
    pairs = [(inner_a, inner_b)]
    if out is not None and len(out) >= 2:
        pairs += [(rows, out[-2]), (columns, out[-1])]
    return all(x is None or y is None or x == y for x, y in pairs)


def _flip(shape: Shape, flip: bool) -> tuple[Size, Size]:
    return (shape[-1], shape[-2]) if flip else (shape[-2], shape[-1])


def _gemm(op: OpRecord, a: Shape, b: Shape, transposes: tuple[bool, bool]) -> Gemm:
    flip_a, flip_b = transposes
    rows, inner_a = _flip(a, flip_a)
    inner_b, columns = _flip(b, flip_b)
    out = op.output_shape if op.output_shape is not None and len(op.output_shape) >= 2 else (None, None)
    m, n, k = first_known(rows, out[-2]), first_known(columns, out[-1]), first_known(inner_a, inner_b)
    contiguous = (
        Contiguous("m", m) if flip_a else Contiguous("k", k),
        Contiguous("k", k) if flip_b else Contiguous("n", n),
        Contiguous("n", n),
    )
    batch = _batch(a[:-2], b[:-2])
    if product(b[:-2]) == 1 and not flip_a:
        return Gemm(product((batch, m)), n, k, 1, contiguous)
    return Gemm(m, n, k, batch, contiguous)


def _batch(a: Shape, b: Shape) -> Size:
    """Return the number of multiplications; leading dimensions broadcast as in numpy."""
    rank = max(len(a), len(b))
    left, right = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
    return product(y if x == 1 else x for x, y in zip(left, right, strict=True))
