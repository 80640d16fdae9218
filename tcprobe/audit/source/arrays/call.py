"""One call of a function on arrays: its arguments by what they are, what it makes, and the sizes that it tells."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from tcprobe.audit.source.kinds import BATCH, Keywords, SourceValue, Tensor
from tcprobe.audit.source.values import dimension, dimensions, items_of, tensors_of
from tcprobe.schema.op import Shape, Size
from tcprobe.source.values import Known


class ArrayCall(Struct, frozen=True):
    """A call, its arguments under one name whatever the library calls them."""

    library: str  # ``np``, ``tf``, ``ops`` (of Keras) or ``K`` (its old backend)
    last: str  # the last part of the function's name
    values: Keywords  # the arguments by our names for them
    rest: list[SourceValue]  # what is passed by position beyond these

    @property
    def x(self) -> Tensor | None:
        """The tensor that it works on, also of nested lists; None where it is none."""
        found = self.values.get("x")
        if found is None or type(found) is Tensor:
            return found
        shape = nested_shape(found)
        return made_of(tensors_of(found), shape) if shape else None

    @property
    def tensors(self) -> list[Tensor]:
        """Every tensor that it is given."""
        return [t for value in (*self.values.values(), *self.rest) for t in tensors_of(value)]

    def has(self, name: str) -> bool:
        """Return whether an argument is passed, and is not None."""
        found = self.values.get(name)
        return found is not None and not (type(found) is Known and found.value is None)

    def number(self, name: str, default: Size = None) -> Size:
        """Return a whole number; `default` where it is not passed; None where it is not known."""
        if name not in self.values:
            return default
        return whole_number(self.values[name])

    def numbers(self, name: str) -> list[Size] | None:
        """Return a list of whole numbers, one number as a list of one; None where their count is not known."""
        found = self.values.get(name)
        one = whole_number(found) if found is not None else None
        if one is not None:
            return [one]
        items = items_of(found) if found is not None else None
        return [whole_number(item) for item in items] if items is not None else None

    def batches(self, name: str) -> bool:
        """Return whether a list of sizes begins with the batch."""
        items = items_of(self.values[name]) if name in self.values else None
        return bool(items) and items is not None and items[0] is BATCH

    def word(self, name: str, default: str) -> str | None:
        """Return a text; `default` where it is not passed; None where it is not known."""
        found = self.values.get(name)
        if found is None:
            return default
        return found.value if type(found) is Known and isinstance(found.value, str) else None

    def flag(self, name: str) -> bool | None:
        """Return a truth value, False where it is not passed; None where it is not known."""
        found = self.values.get(name)
        if found is None:
            return False
        return bool(found.value) if type(found) is Known else None


def nested_shape(given: SourceValue, depth: int = 8) -> Shape | None:
    """Return the shape of nested lists of equal length, () of a number; None where it is not known."""
    if type(given) is Tensor:
        return given.shape
    if type(given) is Known and not isinstance(given.value, tuple):
        return () if isinstance(given.value, int | float) else None
    items = items_of(given) if depth else None
    if not items:
        return None
    shapes = {nested_shape(item, depth - 1) for item in items}
    inner = shapes.pop()
    return (len(items), *inner) if not shapes and inner is not None else None


def whole_number(value: SourceValue) -> Size:
    """Return a whole number; None where a value is none or not known."""
    return value.value if type(value) is Known and type(value.value) is int else None


def axis_of(axis: Size, rank: int) -> Size:
    """Return an axis counted from the start; None where it is unknown or does not fit."""
    return axis % rank if axis is not None and -rank <= axis < rank else None


def made_of(tensors: Sequence[Tensor], shape: Shape | None, samples: Size = None, whole: bool = False) -> Tensor:
    """Return what a function makes of tensors.

    Args:
        tensors: what it is given.
        shape: of the result; None where its rank is not known.
        samples: as in `Tensor`.
        whole: whether the result's features are those of the tensors, none left out or put together.
    """
    ages = {t.fresh for t in tensors}
    fresh = True if ages <= {True} else False if False in ages else None
    sources = tuple(dict.fromkeys(s for t in tensors for s in t.sources)) if whole else ()
    return Tensor(shape, None, sources, any(t.symbolic for t in tensors), fresh, samples)


def of_shape(
    rule: Callable[[ArrayCall, Tensor, Shape], SourceValue | None],
) -> Callable[[ArrayCall], SourceValue | None]:
    """Make a rule of one that needs the shape of what it works on: without it nothing is known of the result."""

    def followed(call: ArrayCall) -> SourceValue | None:
        x = call.x
        return rule(call, x, x.shape) if x is not None and x.shape is not None else None

    return followed


def shape(call: ArrayCall) -> SourceValue | None:
    """Return the sizes of a tensor as a list."""
    return dimensions(call.x) if call.x is not None else None


def rank(call: ArrayCall) -> SourceValue | None:
    """Return the number of a tensor's dimensions."""
    if call.x is None or call.x.shape is None:
        return None
    return dimension(len(call.x.shape))
