"""Tell the op, the layer and the pass of launches by the ranges around them."""

from __future__ import annotations

from functools import reduce
from typing import Final

import numpy as np

from tcprobe.analysis.grouping import Codes, distinct_numbers, distinct_rows
from tcprobe.analysis.ranges.around import Around
from tcprobe.gemm.ops import OpFamily, family_of
from tcprobe.schema.columns import Row, Table, Value
from tcprobe.schema.profile import Note, Profile
from tcprobe.schema.tables import OP_DETAILS

_PASS_OF: Final = {
    "forward": "forward", "dgrad": "dgrad", "wgrad": "wgrad", "backward": "other", "optimizer": "other",
}  # fmt: skip
_GRADIENTS: Final[dict[OpFamily | None, str]] = {"conv_dgrad": "dgrad", "conv_wgrad": "wgrad"}
MOST_TEXT: Final = 1 << 26
"""Characters of all names: a range deep in others has the names of all of them. Large recordings have a million."""
NONE: Final = np.int32(-1)
ENDS: Final = np.int32(-2)
"""Of a layer: an op around it is no op of it."""


def with_ops(profile: Profile, around: Around, gradients: tuple[Codes, Codes]) -> Profile:
    """Return the profile with `op_details` and the op of each launch, told by the ranges around it.

    Ops that the source itself tells stay as they are.

    Args:
        profile: with launches.
        around: the ranges around them.
        gradients: the backward ops among these, and the forward op of each, as positions in `around`; -1: unknown.
    """
    launches = profile.require("launches")
    if not len(around.rows) or (launches.numbers("op_id") >= 0).any():
        return profile
    ops = _Ops(around, gradients)
    inner = distinct_numbers(around.inner[around.inner >= 0])
    kinds, place = distinct_rows(*(numbers[inner] for numbers in ops.numbers))
    first = np.full(len(kinds[0]), len(around.rows))
    np.minimum.at(first, place, inner)
    index: dict[tuple[tuple[str, Value], ...], int] = {}
    told = np.full(len(first), -1, np.int64)
    for number in np.argsort(first).tolist():
        if ops.room < 0:
            said = f"ops and layers have names of more than {MOST_TEXT:,} characters: only the first ones are told"
            profile = profile.with_notes(Note("ops-cut", said))
            break
        if (row := ops.row(*(int(numbers[number]) for numbers in kinds))) is not None:
            told[number] = index.setdefault(tuple(row.items()), len(index))
    if not index:
        return profile
    of_range = np.full(len(around.rows) + 1, -1, np.int64)  # the last is that of no range
    of_range[inner] = told[place]
    details = Table.from_rows(OP_DETAILS, [dict(row) for row in index])
    return profile.with_tables(details, launches.with_columns(op_id=of_range[around.inner]))


class _Ops:
    """What ranges tell of the launches in them.

    Attributes:
        numbers: of each range the path of its layers, its op within the innermost of them, its phase, and the layer
            that its backward op has of a forward op; each as a number, negative where there is none.
        room: characters that names may still take; below 0, those that follow are not told.
    """

    def __init__(self, around: Around, gradients: tuple[Codes, Codes]) -> None:
        self.room = MOST_TEXT
        names = ("kind", "name", "op_type", "dtype", "input_shapes")
        self._told = told = [around.names(name) for name in names]
        self._ids, alike = distinct_rows(*(names.ids for names in told))
        kind = told[0]
        is_layer, is_op, is_phase = (kind.among(name) for name in ("layer", "op", "phase"))
        self._layers = around.paths(np.where(is_layer, alike, NONE))
        op = around.nearest(np.where(is_op, alike, np.where(is_layer, ENDS, NONE)))
        phase = around.nearest(np.where(is_phase, alike, NONE))
        self._lent: list[str] = []
        self.numbers = (self._layers.of_range, op, phase, self._lend(around, *gradients))

    def _lend(self, around: Around, backward: Codes, forward: Codes) -> Codes:
        """Return the number of the layer that each range has of a forward op."""
        lent = np.full(len(around.rows), NONE)
        if len(backward):
            (paths,), place = distinct_rows(np.where(forward < 0, NONE, self._layers.of_range[forward]))
            self._lent = [self._layer(path) for path in paths.tolist()]
            lent[backward] = place
        return around.nearest(lent)

    def _text(self, alike: int, column: int) -> str | None:
        number = int(self._ids[column][alike])
        return None if number < 0 else self._told[column].names[number]

    def _layer(self, path: int) -> str:
        """Return the layers of a path, joined; empty where there is none."""
        names: list[str] = []
        while path >= 0 and self.room >= 0:
            names.append(str(self._text(int(self._layers.alike[path]), 1)))
            self.room -= len(names[-1])
            path = int(self._layers.outer[path])
        return reduce(_below, reversed(names), "")

    def row(self, path: int, op: int, phase: int, lent: int) -> Row | None:
        """Return the row of `op_details` for launches in such ranges; None where no op or layer is around them."""
        layer = self._layer(path) or (self._lent[lent] if lent >= 0 else "")
        if op < 0 and not layer:
            return None
        pass_ = _PASS_OF.get(str(self._text(phase, 1)).lower()) if phase >= 0 else None
        if op < 0:
            return {"op": layer, "layer": layer, "pass": pass_}
        name = str(self._text(op, 1))
        kind = self._text(op, 2) or name.rpartition("/")[2]
        shapes = self._text(op, 4)
        given: Row = {"op_type": kind, "dtype": self._text(op, 3), "input_shapes": shapes}
        told = _GRADIENTS.get(family_of(kind), "other") if lent >= 0 else pass_
        self.room -= len(name) + len(shapes or "")
        return {"op": _below(layer, name), **given, "layer": layer or None, "pass": told}


def _below(outer: str, name: str) -> str:
    """Join a name to the path around it, unless it starts with that path already."""
    return name if not outer or name == outer or name.startswith(f"{outer}/") else f"{outer}/{name}"
