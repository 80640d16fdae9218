"""Add up the changes of layout and type around ops that could use Tensor Cores: what such an op brings with it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from tcprobe.analysis.ops.table import OpIdentity
from tcprobe.schema.columns import Row, Value

LAYOUT_TYPES: Final = frozenset(
    {
        *("Transpose", "Cast", "transpose", "convert", "copy", "bitcast-convert"),
        *("aten::to", "aten::_to_copy", "aten::contiguous", "aten::clone", "_to_copy", "contiguous"),
    }
)
"""Ops that do nothing else: TensorFlow's, XLA's instructions, PyTorch's."""
_OPTIMISER: Final = re.compile(r"(?P<op>.+?)-(?:\d+-){1,3}Transpose\w+-LayoutOptimizer")
"""TensorFlow's layout optimiser names what it puts around an op after it (generic_layout_optimizer_transposer.cc)."""


def around_ops(rows: Mapping[OpIdentity, Row], layout_ns: Mapping[OpIdentity, float]) -> dict[OpIdentity, int]:
    """Return the time of layout changes and casts of each capable op: its own kernels', and those of ops beside it.

    An op beside it stands in its layer and pass, or is named after it; several capable ops there share its time by
    their own. Each ns counts at most once.

    Args:
        rows: of `ops`.
        layout_ns: time of each op's own kernels that change layout or type.

    Returns:
        By op, of those that could use Tensor Cores and whose kernel time is known.
    """
    capable = [key for key, row in rows.items() if row["tc_capable"] == "yes" and row["sum_ns"] is not None]
    found = {key: layout_ns.get(key, 0.0) for key in capable}
    by_path, by_place, by_layer = _grouped(rows, capable)
    for key, row in rows.items():
        spent = row["sum_ns"]
        if row["op_type"] not in LAYOUT_TYPES or not spent or row["tc_capable"] == "yes":
            continue
        named = _OPTIMISER.fullmatch(key[0])
        place = (row["layer"], row["pass"])
        near = by_path.get(named["op"], ()) if named else ()
        near = near or by_place.get(place, ()) or (by_layer.get(row["layer"], ()) if row["pass"] is None else ())
        _share(found, rows, near, float(spent))
    return {key: round(ns) for key, ns in found.items()}


def _grouped(
    rows: Mapping[OpIdentity, Row], capable: Iterable[OpIdentity]
) -> tuple[dict[str, list[OpIdentity]], dict[tuple[Value, Value], list[OpIdentity]], dict[Value, list[OpIdentity]]]:
    """Return the capable ops by path, by layer and pass, and by layer; those of no layer are in none of the latter."""
    by_path: dict[str, list[OpIdentity]] = {}
    by_place: dict[tuple[Value, Value], list[OpIdentity]] = {}
    by_layer: dict[Value, list[OpIdentity]] = {}
    for key in capable:
        by_path.setdefault(key[0], []).append(key)
        if (layer := rows[key]["layer"]) is not None:
            by_place.setdefault((layer, rows[key]["pass"]), []).append(key)
            by_layer.setdefault(layer, []).append(key)
    return by_path, by_place, by_layer


def _share(
    found: dict[OpIdentity, float], rows: Mapping[OpIdentity, Row], near: Sequence[OpIdentity], spent: float
) -> None:
    whole = sum(float(rows[key]["sum_ns"] or 0) for key in near)
    for key in near if whole else ():
        found[key] += spent * float(rows[key]["sum_ns"] or 0) / whole
