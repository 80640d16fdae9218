"""The sizes of recurrent layers, whose traced loops multiply all gates at once and take their own units as inputs."""

from __future__ import annotations

from typing import Final

from tcprobe.gemm.dimensions import named_sizes
from tcprobe.gemm.resize import resized
from tcprobe.keras.catalogue import LAYER_CLASSES, class_of
from tcprobe.keras.settings import wrapped_layer
from tcprobe.schema.model import Layer
from tcprobe.schema.op import OpRecord

MOST_GATES: Final = max(row.gates for row in LAYER_CLASSES)


def units_of(layer: Layer | None) -> int | None:
    """Return the units of a recurrent layer, or of the one that a Bidirectional runs both ways; else None."""
    if layer is None:
        return None
    kind, config = layer.kind, layer.config
    if kind == "Bidirectional" and (inner := wrapped_layer(config)) is not None:
        kind, config = inner[0], inner[1]
    units = config.get("units") if _runs_gates(kind) else None
    return units if isinstance(units, int) and units > 0 else None


def told(layer: Layer, units: int, names: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Return the sizes of a recurrent layer's product in its user's words: inputs and units.

    Args:
        layer: the layer.
        units: of the layer.
        names: as `named_sizes` gives them: a traced product has all gates as its units, and the units as its inputs.
    """
    found: list[tuple[str, int]] = []
    taken = _inputs(layer)
    for name, size in names:
        if name == "inputs" and size != taken:
            found += [("units", units)] if size == units else [(name, size)]
        elif name == "inputs":
            found += [(name, size), ("units", units)] if size == units else [(name, size)]
        elif _gates(name, size, units):
            found.append(("units", units))
    return list(dict.fromkeys(found))


def with_units(record: OpRecord, layer: Layer, old: int, new: int) -> OpRecord:
    """Return a product of a recurrent layer after a change of its units."""
    for name, size in named_sizes(record):
        if _gates(name, size, old):
            record = resized(record, name, size, size // old * new)
        elif name == "inputs" and size == old and size != _inputs(layer):
            record = resized(record, name, size, new)
    return record


def _runs_gates(kind: str) -> bool:
    """Say whether a class is a recurrent layer of Keras' own gates, not one around the user's cell."""
    row = class_of(kind)
    return row.kind == "recurrent" and row.gates > 0


def _gates(name: str, size: int, units: int) -> bool:
    return name == "units" and size % units == 0 and size // units <= MOST_GATES


def _inputs(layer: Layer) -> int | None:
    shape = layer.input_shapes[0] if layer.input_shapes else None
    return shape[-1] if shape else None
