"""Find what changes of layout and type cost beside the ops that could use Tensor Cores.

They are kernels of such an op itself, kernels of an op that TensorFlow's layout optimiser put beside it and named after
it, and kernels of transposes and casts in its layer and pass, which several ops share by their kernel time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from tcprobe.analysis.causes.parts import part_of
from tcprobe.analysis.causes.split import whole_ns
from tcprobe.analysis.ops.table import OpIdentity
from tcprobe.analysis.subject.layout import CASTS, COPIES, TRANSPOSES
from tcprobe.schema.columns import Row, Table, Value

COPYING: Final = ("copy", COPIES, "aten::clone")
"""Types of ops whose kernels may change layout or type, or copy alone: the kernel's name tells."""
# tensorflow/core/grappler/optimizers/generic_layout_optimizer_transposer.cc: NODE-PORT[-FANOUT]-TransposeNHWCToNCHW-...
_OF_THE_OPTIMISER: Final = re.compile(
    r"(?P<op>.+?)-\d+(?:-\d+)?-(?:Transpose|DataFormatVecPermute|DataFormatDimMap)[A-Z]+To[A-Z]+-LayoutOptimizer"
)
Place: TypeAlias = tuple[str, str | None]
"""Layer and pass."""


class _Mover(NamedTuple):
    """An op that changes layout or type and does nothing else, and the time of its kernels that do so."""

    key: OpIdentity
    row: Row
    ns: int


def around_ns(kernels: Table, rows: Mapping[OpIdentity, Row]) -> dict[OpIdentity, int]:
    """Return the time of layout changes and casts beside each op that could use Tensor Cores and has kernel time.

    Each ns counts at most once over all ops. What belongs to no such op, by name or by layer and pass, is left out.

    Args:
        kernels: with their causes.
        rows: op -> its row of `ops`.
    """
    capable = {key: row for key, row in rows.items() if row["tc_capable"] == "yes" and row["sum_ns"] is not None}
    found = dict.fromkeys(capable, 0)
    own, moved = _times(kernels, rows)
    for key, ns in own.items():
        if key in found:
            found[key] += ns
    named, placed = _by_name(capable), _by_place(capable)
    shares: dict[tuple[OpIdentity, ...], int] = {}
    for mover in _movers(rows, moved):
        if owners := _owners(mover, named, placed):
            shares[owners] = shares.get(owners, 0) + mover.ns
    for owners, ns in shares.items():
        for key, part in _shared(owners, ns, capable):
            found[key] += part
    return found


def around_of_layers(ops: Iterable[Row], no_layer: str) -> dict[str, int]:
    """Return the sum of `around_ns` over the ops of each layer that have it."""
    found: dict[str, int] = {}
    for row in ops:
        if row["around_ns"] is not None:
            layer = str(row["layer"] or no_layer)
            found[layer] = found.get(layer, 0) + int(row["around_ns"])
    return found


def _times(kernels: Table, rows: Mapping[OpIdentity, Row]) -> tuple[dict[OpIdentity, int], dict[OpIdentity, int]]:
    """Return the time of each op's kernels whose cause is the layout, and of the kernels of ops that only move."""
    own: dict[OpIdentity, int] = {}
    moved: dict[OpIdentity, int] = {}
    columns = (kernels.names(name).tolist() for name in ("kernel", "op", "op_type", "cause"))
    for kernel, op, op_type, cause, ns in zip(*columns, kernels.numbers("sum_ns").tolist(), strict=True):
        key = (str(op), op_type)
        if op is None or key not in rows or ns != ns:
            continue
        if cause == "layout":
            own[key] = own.get(key, 0) + round(ns)
        elif op_type in (*CASTS, *TRANSPOSES) or (op_type in COPYING and part_of(str(kernel)) == "layout"):
            moved[key] = moved.get(key, 0) + round(ns)
    return own, moved


def _movers(rows: Mapping[OpIdentity, Row], moved: Mapping[OpIdentity, int]) -> Iterator[_Mover]:
    """Yield the ops that only move: no op that could use Tensor Cores is one."""
    for key, ns in moved.items():
        if ns > 0 and rows[key]["tc_capable"] != "yes":
            yield _Mover(key, rows[key], ns)


def _by_name(capable: Mapping[OpIdentity, Row]) -> dict[str, tuple[OpIdentity, ...]]:
    found: dict[str, list[OpIdentity]] = {}
    for key in capable:
        found.setdefault(key[0], []).append(key)
    return {name: _in_order(keys) for name, keys in found.items()}


def _by_place(capable: Mapping[OpIdentity, Row]) -> dict[Place, tuple[OpIdentity, ...]]:
    found: dict[Place, list[OpIdentity]] = {}
    for key, row in capable.items():
        if row["layer"] is not None:
            found.setdefault((str(row["layer"]), _text(row["pass"])), []).append(key)
    return {place: _in_order(keys) for place, keys in found.items()}


def _owners(
    mover: _Mover, named: Mapping[str, tuple[OpIdentity, ...]], placed: Mapping[Place, tuple[OpIdentity, ...]]
) -> tuple[OpIdentity, ...]:
    """Return the ops beside which an op moves: those whose name it has, else those of its layer and pass."""
    by_optimiser = _OF_THE_OPTIMISER.fullmatch(mover.key[0])
    beside = by_optimiser["op"] if by_optimiser else mover.key[0]
    if beside in named:
        return named[beside]
    layer = mover.row["layer"]
    return () if layer is None else placed.get((str(layer), _text(mover.row["pass"])), ())


def _shared(
    owners: tuple[OpIdentity, ...], ns: int, capable: Mapping[OpIdentity, Row]
) -> Iterator[tuple[OpIdentity, int]]:
    """Yield the part of each op, by kernel time; equal parts where none of them has any."""
    spent = np.array([float(capable[key]["sum_ns"] or 0) for key in owners])
    weights = spent if spent.sum() > 0 else np.ones(len(owners))
    yield from zip(owners, whole_ns(ns * weights / weights.sum(), ns).tolist(), strict=True)


def _in_order(keys: list[OpIdentity]) -> tuple[OpIdentity, ...]:
    return tuple(sorted(keys, key=lambda key: (key[0], key[1] or "")))


def _text(value: Value) -> str | None:
    return None if value is None else str(value)
