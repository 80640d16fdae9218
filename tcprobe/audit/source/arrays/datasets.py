"""Data sets that Keras brings along: the shapes of their arrays."""

from __future__ import annotations

import re
from typing import Final

from tcprobe.audit.source.values.kinds import Items, SourceValue, Tensor
from tcprobe.schema.op import Shape

_LOADED: Final = re.compile(r"keras\.datasets\.(\w+)\.load_data")
# Shapes of a sample and of its label. Source: docstrings of keras/src/datasets, Keras 3.
_SAMPLES: Final[dict[str, tuple[Shape, Shape]]] = {
    "mnist": ((28, 28), ()),
    "fashion_mnist": ((28, 28), ()),
    "cifar10": ((32, 32, 3), (1,)),
    "cifar100": ((32, 32, 3), (1,)),
    "boston_housing": ((13,), ()),
    "california_housing": ((8,), ()),
}


def data_set(name: str) -> SourceValue | None:
    """Return what ``load_data()`` of a data set of Keras' is, training part first; None for any other name.

    The number of samples is left open: it is no promise of a batch.
    """
    found = _LOADED.fullmatch(name)
    shapes = _SAMPLES.get(found[1]) if found else None
    if shapes is None:
        return None
    return Items([Items([Tensor((None, *shape), None, (), False, True) for shape in shapes]) for _ in range(2)])
