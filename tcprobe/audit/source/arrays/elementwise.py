"""Functions that make arrays of sizes or numbers, work element by element, or leave out dimensions.

These are ``zeros``, ``normal``, ``arange``, ``array``; functions and operators whose operands' shapes meet; and sums,
means, the largest, moments.
"""

from __future__ import annotations

import math

from msgspec.structs import replace

from tcprobe.audit.source.arrays.call import ArrayCall, axis_of, made_of, nested_shape, of_shape
from tcprobe.audit.source.kinds import Items, SourceValue, Tensor
from tcprobe.audit.source.values import either, shape_from
from tcprobe.schema.op import Shape, Size
from tcprobe.source.values import Known


def filled(call: ArrayCall) -> SourceValue | None:
    """Return an array of the ``shape`` that is passed; None where none is: the result is a number."""
    if not call.has("shape"):
        return None
    return _of_shape(shape_from(call.values["shape"]))


def of_dimensions(call: ArrayCall) -> SourceValue | None:
    """Return an array whose sizes are passed one by one: ``numpy.random.randn(8, 64)``."""
    return _of_shape(shape_from(Items(call.rest))) if call.rest else None


def counted(call: ArrayCall) -> SourceValue:
    """Return the numbers of a range: its length, where start, stop and step are known."""
    parts = [call.values.get(name) for name in ("start", "stop", "step")]
    if parts[1] is None or (type(parts[1]) is Known and parts[1].value is None):
        parts[0], parts[1] = None, parts[0]
    given = [0 if part is None and i == 0 else 1 if part is None else _number(part) for i, part in enumerate(parts)]
    start, stop, step = given
    if start is None or stop is None or not step:
        return _of_shape((None,))
    return _of_shape((max(0, math.ceil((stop - start) / step)) or None,))


def spaced(call: ArrayCall) -> SourceValue:
    """Return ``num`` numbers between two others; the ends must be numbers."""
    ends = [call.values.get(name) for name in ("start", "stop")]
    if any(type(end) is Tensor and end.shape != () for end in ends):
        return Tensor(None, None, (), False, True, None)
    return _of_shape((call.number("num", 50),))


def identity_matrix(call: ArrayCall) -> SourceValue:
    """Return a matrix of ``n`` rows and ``m`` columns."""
    if call.has("batch_shape") or call.has("x"):
        return Tensor(None, None, (), False, True, None)
    rows = call.number("n")
    return _of_shape((rows, call.number("m") if call.has("m") else rows))


def literal(call: ArrayCall) -> SourceValue | None:
    """Return the array that nested lists or a number make; a tensor as it is."""
    given = call.values.get("x")
    if given is None:
        return None
    if call.has("shape"):
        return _of_shape(shape_from(call.values["shape"]))
    if type(given) is Tensor or (type(given) is Known and isinstance(given.value, int | float)):
        return given
    shape = nested_shape(given)
    return made_of(call.tensors, shape) if shape else None


def variable(call: ArrayCall) -> SourceValue | None:
    """Return a variable of the shape of what it starts as; its values change."""
    made = literal(call)
    if type(made) is Known:
        return Tensor((), None, (), False, False, None)
    return replace(made, fresh=False) if type(made) is Tensor else None


def weight(call: ArrayCall) -> SourceValue:
    """Return the weights of a ``shape``: trained, so that what they meet is not the data alone."""
    shape = shape_from(call.values["shape"]) if call.has("shape") else None
    return Tensor(shape, None, (), False, False, None)


def _number(value: SourceValue) -> float | None:
    known = type(value) is Known and isinstance(value.value, int | float)
    return value.value if known and type(value) is Known else None


def _of_shape(shape: Shape | None) -> SourceValue:
    """Return an array of data; a first size that is not known is taken for the batch."""
    return Tensor(shape, None, (), False, True, 1)


def same(call: ArrayCall) -> SourceValue | None:
    """Return a tensor of the same shape; a number as it is, where nothing is computed with it."""
    return call.values.get("x") if call.x is not None else None


def kept(call: ArrayCall) -> SourceValue | None:
    """Return what is passed, number or tensor, as it is: ``cast``, ``identity``."""
    return call.values.get("x")


def met(call: ArrayCall) -> SourceValue | None:
    """Return an elementwise result of several: ``add``, ``maximum``, ``where``."""
    values = [*(value for name, value in call.values.items() if len(name) == 1), *call.rest]
    tensors = [value for value in values if type(value) is Tensor]
    if not tensors or (call.last == "where" and len(values) < 3):
        return None
    result: Tensor = tensors[0]
    for other in values:
        if other is not tensors[0]:
            result = combined(result, other)
    return result


def combined(tensor: Tensor, other: SourceValue) -> Tensor:
    """Return the elementwise result of a tensor and another one, or a number."""
    if type(other) is Known and isinstance(other.value, int | float):
        return tensor
    if type(other) is not Tensor:
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


def reduced(call: ArrayCall) -> SourceValue | None:
    """Return a tensor without the dimensions of ``axis``; a number where none is named."""
    x, keep = call.x, call.flag("keepdims")
    if x is None:
        return None
    if not call.has("axis"):
        return made_of([x], () if keep is False else (1,) * len(x.shape) if keep and x.shape is not None else None)
    if x.shape is None or keep is None:
        return None
    axes = [axis_of(axis, len(x.shape)) for axis in call.numbers("axis") or [None]]
    return _without(x, axes, keep)


def picked(call: ArrayCall) -> SourceValue | None:
    """Return where the largest stands along ``axis``; of TensorFlow and the backend along their own default."""
    if not call.has("axis") and call.library in ("tf", "K"):
        axis = Known(0 if call.library == "tf" else -1)
        call = replace(call, values={**call.values, "axis": axis})
    return reduced(call)


def moments(call: ArrayCall) -> SourceValue | None:
    """Return mean and variance along ``axis``."""
    found = reduced(call)
    return Items([found, found]) if found is not None else None


@of_shape
def largest(call: ArrayCall, x: Tensor, shape: Shape) -> SourceValue | None:
    """Return the ``k`` largest of the last dimension, and where they stand."""
    if not shape:
        return None
    found = made_of([x], (*shape[:-1], call.number("k", 1)), x.samples)
    return Items([found, found])


def _without(x: Tensor, axes: list[int | None], keep: bool) -> Tensor | None:
    assert x.shape is not None
    if None in axes:
        return made_of([x], (None,) * len(x.shape) if keep else None)
    if keep:
        shape = tuple(1 if index in axes else size for index, size in enumerate(x.shape))
    else:
        shape = tuple(size for index, size in enumerate(x.shape) if index not in axes)
    return made_of([x], shape, None if 0 in axes else x.samples, len(x.shape) - 1 not in axes)
