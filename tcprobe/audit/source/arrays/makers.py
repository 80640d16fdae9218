"""Functions that make arrays of nothing but sizes or numbers: ``zeros``, ``normal``, ``arange``, ``array``."""

from __future__ import annotations

import math

from msgspec.structs import replace

from tcprobe.audit.source.arrays.call import ArrayCall, made_of, nested_shape
from tcprobe.audit.source.kinds import Items, SourceValue, Tensor
from tcprobe.audit.source.values import shape_from
from tcprobe.schema.op import Shape
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
    if parts[1] is None or (isinstance(parts[1], Known) and parts[1].value is None):
        parts[0], parts[1] = None, parts[0]
    given = [0 if part is None and i == 0 else 1 if part is None else _number(part) for i, part in enumerate(parts)]
    start, stop, step = given
    if start is None or stop is None or not step:
        return _of_shape((None,))
    return _of_shape((max(0, math.ceil((stop - start) / step)) or None,))


def spaced(call: ArrayCall) -> SourceValue:
    """Return ``num`` numbers between two others; the ends must be numbers."""
    ends = [call.values.get(name) for name in ("start", "stop")]
    if any(isinstance(end, Tensor) and end.shape != () for end in ends):
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
    if isinstance(given, Tensor) or (isinstance(given, Known) and isinstance(given.value, int | float)):
        return given
    shape = nested_shape(given)
    return made_of(call.tensors, shape) if shape else None


def variable(call: ArrayCall) -> SourceValue | None:
    """Return a variable of the shape of what it starts as; its values change."""
    made = literal(call)
    if isinstance(made, Known):
        return Tensor((), None, (), False, False, None)
    return replace(made, fresh=False) if isinstance(made, Tensor) else None


def weight(call: ArrayCall) -> SourceValue:
    """Return the weights of a ``shape``: trained, so that what they meet is not the data alone."""
    shape = shape_from(call.values["shape"]) if call.has("shape") else None
    return Tensor(shape, None, (), False, False, None)


def _number(value: SourceValue) -> float | None:
    known = isinstance(value, Known) and isinstance(value.value, int | float)
    return value.value if known and isinstance(value, Known) else None


def _of_shape(shape: Shape | None) -> SourceValue:
    """Return an array of data; a first size that is not known is taken for the batch."""
    return Tensor(shape, None, (), False, True, 1)
