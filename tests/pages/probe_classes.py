"""What tcprobe/probe/audit/classes.py is made of: the catalogue of Keras."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tcprobe.keras.catalogue import LAYER_CLASSES
from tcprobe.keras.row import KerasClass

FILE: Final = Path(__file__).parents[2] / "tcprobe/probe/audit/classes.py"
ABOUT: Final = "What the audit must know of Keras' classes: written from tcprobe/keras by tests/pages/probe_classes.py."
TEXT: Final = """
# Their output features come from tables and loops, not one product.
MAKERS = %s
# A GPU runs them in cuDNN.
CUDNN_LAYERS = %s
# Settings asked of layers whose own get_config does not tell (subclasses without one).
SETTINGS = %s
"""
OBJECTS: Final = frozenset({"output_shape", "layer", "cell", "cells", "backward_layer"})
"""Arguments whose namesake on a layer is something else: the shape of its tensor, another layer."""


def text() -> str:
    """Return the whole file."""
    makers = [row.name for row in LAYER_CLASSES if row.output is not None and row.kind in ("embedding", "recurrent")]
    asked = dict.fromkeys(
        name for row in LAYER_CLASSES if _sized(row) for name in _settings(row) if name not in OBJECTS
    )
    return f'"""{ABOUT}"""\n' + TEXT % (
        _tuple(makers),
        _tuple(row.name for row in LAYER_CLASSES if row.cudnn),
        _tuple(asked),
    )


def _sized(row: KerasClass) -> bool:
    """Say whether a layer's sizes count."""
    return row.products != "none" or row.output is not None or bool(row.counts)


def _settings(row: KerasClass) -> tuple[str, ...]:
    own = () if row.output is None else (row.output,)
    return (*own, *row.inner, *row.counts, *row.structure, *row.settings)


def _tuple(names: Iterable[str]) -> str:
    """Return names as a tuple, one a line where they are many."""
    quoted = [f'"{name}"' for name in names]
    line = f"({', '.join(quoted)})"
    return line if len(line) < 100 else "(\n" + "".join(f"    {name},\n" for name in quoted) + ")"
