"""Functions and operators that work element by element, and how their operands' shapes meet."""

from __future__ import annotations

from msgspec.structs import replace

from tcprobe.audit.source.arrays.call import ArrayCall, made_of, of_shape
from tcprobe.audit.source.kinds import SourceValue, Tensor
from tcprobe.audit.source.values import either
from tcprobe.schema.op import Shape, Size
from tcprobe.source.values import Known


def same(call: ArrayCall) -> SourceValue | None:
    """Return a tensor of the same shape; a number as it is, where nothing is computed with it."""
    return call.values.get("x") if call.x is not None else None


def kept(call: ArrayCall) -> SourceValue | None:
    """Return what is passed, number or tensor, as it is: ``cast``, ``identity``."""
    return call.values.get("x")


def met(call: ArrayCall) -> SourceValue | None:
    """Return an elementwise result of several: ``add``, ``maximum``, ``where``."""
    values = [*(value for name, value in call.values.items() if len(name) == 1), *call.rest]
    tensors = [value for value in values if isinstance(value, Tensor)]
    if not tensors or (call.last == "where" and len(values) < 3):
        return None
    result: Tensor = tensors[0]
    for other in values:
        if other is not tensors[0]:
            result = combined(result, other)
    return result


def combined(tensor: Tensor, other: SourceValue) -> Tensor:
    """Return the elementwise result of a tensor and another one, or a number."""
    if isinstance(other, Known) and isinstance(other.value, int | float):
        return tensor
    if not isinstance(other, Tensor):
        return _with_unknown(tensor)
    both = either(tensor, other)
    last = _size(tensor.last, other.last)
    if tensor.shape is None or other.shape is None:
        return Tensor(None, last, both.sources, both.symbolic, both.fresh, both.samples)
    shape = broadcast(tensor.shape, other.shape)
    samples = _samples(tensor, other, len(shape)) if shape else None
    if shape and samples is not None:
        shape = (None, *shape[1:])
    return Tensor(shape, last, both.sources, both.symbolic, both.fresh, samples)


def _with_unknown(tensor: Tensor) -> Tensor:
    """Return the elementwise result of a tensor and something unknown, a number or another tensor.

    Dimensions of more than one stay. There are no more of them where the tensor is an image or longer still: what
    meets one has at most as many.
    """
    last = tensor.last if tensor.last != 1 else None
    shape = tuple(None if size == 1 else size for size in tensor.shape or ())
    if len(shape) < 4:
        return Tensor(None, last, tensor.sources if last else (), tensor.symbolic, None)
    return replace(tensor, shape=shape, sources=tensor.sources if last else (), fresh=None)


def broadcast(a: Shape, b: Shape) -> Shape:
    """Return the shape of an elementwise result, dimensions meeting at the right.

    A size that is not known and meets one of more than 1 is that one, or 1: the result has it. Sizes that do not fit
    make an unknown one.
    """
    rank = max(len(a), len(b))
    rows = zip((1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b, strict=True)
    return tuple(_size(x, y) for x, y in rows)


def _size(a: Size, b: Size) -> Size:
    if a == 1 or b == 1 or a == b:
        return b if a == 1 else a
    return (a or b) if a is None or b is None else None


def _samples(a: Tensor, b: Tensor, rank: int) -> Size:
    """Return the samples of a result: of those whose first dimension, open, is the result's first."""
    open_ = [t for t in (a, b) if t.shape and len(t.shape) == rank and t.shape[0] is None]
    found = {t.samples for t in open_}
    return found.pop() if len(found) == 1 else None


@of_shape
def converted(call: ArrayCall, x: Tensor, shape: Shape) -> SourceValue | None:
    """Return class numbers as rows of ones and zeros: one more dimension, of ``depth``, last."""
    return made_of([x], (*shape, call.number("depth")), x.samples) if call.number("axis", -1) == -1 else None
