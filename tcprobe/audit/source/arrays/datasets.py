"""Data sets: those that Keras brings along, and those of `tf.data`, by the shapes of their elements."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from tcprobe.audit.source.arrays.indexing import indexed
from tcprobe.audit.source.kinds import Arguments, DataSet, Entries, Items, SourceValue, Tensor, Unknown
from tcprobe.audit.source.values import items_of
from tcprobe.schema.op import Shape

_LOADED: Final = re.compile(r"keras\.datasets\.(\w+)\.load_data")
SAMPLES: Final[dict[str, tuple[Shape, Shape]]] = {
    "mnist": ((28, 28), ()),
    "fashion_mnist": ((28, 28), ()),
    "cifar10": ((32, 32, 3), (1,)),
    "cifar100": ((32, 32, 3), (1,)),
    "boston_housing": ((13,), ()),
    "california_housing": ((8,), ()),
    "imdb": ((), ()),
    "reuters": ((), ()),
}
"""Shapes of a sample, of texts a list of words, and of its label. Source: docstrings of keras/src/datasets, Keras 3."""


def data_set(name: str) -> SourceValue | None:
    """Return what ``load_data()`` of a data set of Keras' is, training part first; None for any other name.

    The number of samples is left open: it is no promise of a batch.
    """
    found = _LOADED.fullmatch(name)
    shapes = SAMPLES.get(found[1]) if found else None
    if shapes is None:
        return None
    return Items([Items([Tensor((None, *shape), None, (), False, True) for shape in shapes]) for _ in range(2)])


_SAME: Final = (
    "shuffle", "repeat", "prefetch", "cache", "take", "skip", "shard", "filter", "with_options", "as_numpy_iterator",
    "rebatch", "ignore_errors",
)  # fmt: skip
_MADE: Final = re.compile(r"tensorflow\.data\.Dataset\.(\w+)")


def made_data_set(name: str, given: Arguments) -> SourceValue | None:
    """Return the data set that a function of `tf.data` makes; None for any other name, or an unknown one."""
    found = _MADE.fullmatch(name)
    first = given.first
    if found is None or first is None:
        return None
    if found[1] == "from_tensor_slices":
        return DataSet(_each(first, _row))
    if found[1] == "from_tensors":
        return DataSet(first)
    parts = items_of(first) if found[1] == "zip" else None
    sets = [part.element for part in parts or () if type(part) is DataSet]
    return DataSet(Items(sets)) if sets and parts is not None and len(sets) == len(parts) else None


def of_data_set(of: DataSet, name: str) -> SourceValue:
    """Return the result of a method of a data set."""
    if name in _SAME:
        return of
    if name == "batch":
        return DataSet(_each(of.element, _batch))
    if name == "unbatch":
        return DataSet(_each(of.element, _row))
    if name == "enumerate":
        return enumerated(of)
    return Unknown(f"is the result of {name}()")


def enumerated(of: DataSet) -> DataSet:
    """Return a data set with the number of each element before it."""
    return DataSet(Items([Unknown("is the number of an element"), of.element]))


def inputs_of(value: SourceValue | None) -> SourceValue | None:
    """Return what a model is given of data to be fitted on: of a data set the first part of an element."""
    if type(value) is not DataSet:
        return value
    parts = items_of(value.element)
    return parts[0] if parts else value.element


def _each(value: SourceValue, make: Callable[[Tensor], Tensor]) -> SourceValue:
    """Return a value with something else made of each tensor in it."""
    if type(value) is Tensor:
        return make(value)
    items = items_of(value)
    if items is not None:
        return Items([_each(item, make) for item in items])
    if type(value) is Entries and not value.open:
        return Entries({key: _each(item, make) for key, item in value.entries.items()})
    return Unknown("is an element of data that are not known")


def _row(tensor: Tensor) -> Tensor:
    return indexed(tensor, ["one"])


def _batch(tensor: Tensor) -> Tensor:
    shape = (None, *tensor.shape) if tensor.shape is not None else None
    return replace(tensor, shape=shape, rows=1, batch=0)
