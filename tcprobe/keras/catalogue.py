"""Finds classes of Keras in the catalogue, by any of their names."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final

from tcprobe.keras.classes import CLASSES
from tcprobe.keras.row import KerasClass

UNKNOWN_CLASS: Final = KerasClass("", "unknown", module="")
"""Stands for a class that is none of Keras'."""
LAYER_CLASSES: Final = tuple(row for row in CLASSES if row.module == "layers")
"""What `keras.layers` holds, the modules below it included."""
_BY_NAME: Final[Mapping[str, KerasClass]] = {name: row for row in LAYER_CLASSES for name in (row.name, *row.aliases)}


def class_of(kind: str) -> KerasClass:
    """Return the row of a class of ``keras.layers`` by its own name or another; `UNKNOWN_CLASS` where there is none."""
    return _BY_NAME.get(kind, UNKNOWN_CLASS)


@cache
def by_path() -> Mapping[str, KerasClass]:
    """Return the rows by each name that a class may be imported by, from ``keras`` on."""
    found = {}
    for row in CLASSES:
        home = row.path.rpartition(".")[0]
        found.update(dict.fromkeys((row.path, *row.paths, *(f"{home}.{alias}" for alias in row.aliases)), row))
    return found


def canonical_kind(kind: str) -> str:
    """Return a layer class's own name: ``MaxPool2D`` -> ``MaxPooling2D``; others as they are."""
    return class_of(kind).name or kind


def rank_of(kind: str) -> int | None:
    """Return the number of spatial dimensions of a layer class (``Conv2D``: 2); None where it has none, or any."""
    return class_of(kind).rank
