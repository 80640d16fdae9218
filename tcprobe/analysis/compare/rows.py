"""Join the layers, ops and kernels of several runs, and find the kernels that took the place of others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tcprobe.analysis.compare.basis import Run
from tcprobe.analysis.compare.names import Renaming, kernel_names, layer_names, op_names
from tcprobe.analysis.ops.table import NO_OP
from tcprobe.schema.changes.comparison import ComparedRow
from tcprobe.schema.columns import Row, Table

MIXED: Final = "unknown"


@dataclass(slots=True)
class Part:
    """What a layer, op or kernel of one run takes within the window; None where a part of it is unknown."""

    ns: float | None = 0.0
    launches: float | None = 0.0
    tc_ns: float | None = 0.0
    uses_tc: set[str] = field(default_factory=set)
    layer: set[str | None] = field(default_factory=set)
    pass_: set[str | None] = field(default_factory=set)
    source: set[str | None] = field(default_factory=set)

    def add(self, ns: float | None, launches: float | None, tc_ns: float | None) -> None:
        """Add the times of a row."""
        self.ns = _plus(self.ns, ns)
        self.launches = _plus(self.launches, launches)
        self.tc_ns = _plus(self.tc_ns, tc_ns)


def _plus(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other


Parts = dict[tuple[str, str | None], Part]


@dataclass(frozen=True, slots=True)
class Joined:
    """The rows of all runs under their common names.

    Attributes:
        layers, ops, kernels: of each run, by name and type; None where a run has no such times.
        kernels_by_op: of each run, time of each kernel in each op; empty where the source names no ops.
    """

    layers: list[Parts | None]
    ops: list[Parts | None]
    kernels: list[Parts | None]
    kernels_by_op: list[list[tuple[str, str | None, str, float]]]


def joined(runs: Sequence[Run]) -> Joined:
    """Return the layers, ops and kernels of each run, in ns within the window."""
    tables = {name: [run.profile.require(name) for run in runs] for name in ("layers", "ops", "kernels")}
    layer = layer_names([_given(table, "layer") for table in tables["layers"]])
    op = op_names([{*_given(o, "op"), *_given(k, "op")} for o, k in zip(tables["ops"], tables["kernels"], strict=True)])
    kernel = kernel_names([_given(table, "kernel") for table in tables["kernels"]])
    types = _types(tables["ops"] + tables["kernels"], op + op)
    return Joined(
        [_layers(t, n) for t, n in zip(tables["layers"], layer, strict=True)],
        [_ops(t, n, m, types) for t, n, m in zip(tables["ops"], op, layer, strict=True)],
        [_kernels(t, n) for t, n in zip(tables["kernels"], kernel, strict=True)],
        [_by_op(t, n, m, types) for t, n, m in zip(tables["kernels"], kernel, op, strict=True)],
    )


def _given(table: Table, column: str) -> set[str]:
    names = table.names(column)
    return {name for name in names.tolist() if name is not None} if len(names) else set()


def _types(tables: Sequence[Table], named: Sequence[Renaming]) -> dict[str, str]:
    """Return the types of ops that have one type in all the runs that tell it, by name: some reports tell none."""
    found: dict[str, set[str]] = {}
    for table, names in zip(tables, named, strict=True):
        for op, op_type in {*zip(table.values("op"), table.values("op_type"), strict=True)}:
            if op is not None and op_type is not None:
                found.setdefault(names.get(str(op), str(op)), set()).add(str(op_type))
    return {name: min(types) for name, types in found.items() if len(types) == 1}


def _layers(table: Table, named: Renaming) -> Parts | None:
    return _parts(((named[str(row["layer"])], None), row, _sure(row)) for row in table.rows())


def _ops(table: Table, named: Renaming, layers: Renaming, types: Mapping[str, str]) -> Parts | None:
    """Return the ops; one without a kernel takes no time where others have kernels."""
    rows = [(_op_key(named[str(row["op"])], row, types), row) for row in table.rows()]
    timed = any(row["sum_ns"] is not None for _, row in rows)
    found = _parts((key, row, _sure(row)) for key, row in rows if row["sum_ns"] is not None or not timed)
    for key, row in rows if found else ():
        part = (found or {}).get(key)
        if part is not None:
            part.layer.add(layers.get(str(row["layer"]), _text(row["layer"])))
            part.pass_.add(_text(row["pass"]))
            part.uses_tc.add(_op_uses_tc(row))
    return found


def _op_key(name: str, row: Row, types: Mapping[str, str]) -> tuple[str, str | None]:
    return name, _text(row["op_type"]) or types.get(name)


def _op_uses_tc(row: Row) -> str:
    if row["tc_ns"]:
        return "yes"
    return "no" if row["tc_ns"] == 0 and not row["unknown_ns"] else "unknown"


def _kernels(table: Table, named: Renaming) -> Parts | None:
    spent = (((named[str(row["kernel"])], None), row, _of_kernel(row)) for row in table.rows())
    found = _parts((key, {**row, "launches": row["calls"]}, tc) for key, row, tc in spent)
    for row in table.rows() if found else ():
        (found or {})[named[str(row["kernel"])], None].uses_tc.add(str(row["uses_tc"]))
    return found


def _of_kernel(row: Row) -> float | None:
    if row["uses_tc"] == "unknown":
        return None
    return _number(row["sum_ns"]) if row["uses_tc"] == "yes" else 0.0


def _by_op(
    table: Table, named: Renaming, ops: Renaming, types: Mapping[str, str]
) -> list[tuple[str, str | None, str, float]]:
    """Return op, its type, kernel and time of each row that has a time."""
    return [
        (*_op_key(ops.get(str(row["op"]), NO_OP), row, types), named[str(row["kernel"])], float(row["sum_ns"] or 0))
        for row in table.rows()
        if row["sum_ns"] is not None
    ]


def _parts(rows: Iterable[tuple[tuple[str, str | None], Row, float | None]]) -> Parts | None:
    """Sum rows by name and type; None where none has a time."""
    found: Parts = {}
    for key, row, tc_ns in rows:
        part = found.setdefault(key, Part())
        part.add(_number(row["sum_ns"]), _number(row["launches"]), tc_ns)
        part.source.add(_text(row.get("source")))
    return found if any(part.ns is not None for part in found.values()) else None


def _sure(row: Row) -> float | None:
    """Return the time on Tensor Cores of a layer or op; None where the class of some of its kernels is unknown."""
    return None if row["unknown_ns"] else _number(row["tc_ns"])


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def compared_rows(runs: Sequence[Run], parts: Sequence[Parts | None]) -> tuple[ComparedRow, ...]:
    """Return the rows of all runs, largest change first; empty where no run has times."""
    keys = {key for found in parts if found is not None for key in found}
    rows = [_row(key, [None if p is None else p.get(key, Part()) for p in parts], runs) for key in keys]
    return tuple(sorted((row for row in rows if any(side is not None for side in row.sides)), key=_order))


def _row(key: tuple[str, str | None], parts: Sequence[Part | None], runs: Sequence[Run]) -> ComparedRow:
    def each(column: str) -> tuple[float | None, ...]:
        values = (None if part is None else getattr(part, column) for part in parts)
        return tuple(None if v is None else v * run.share for v, run in zip(values, runs, strict=True))

    sides = each("ns")
    agreed = {name: _shared(getattr(part, name) for part in parts if part) for name in ("layer", "pass_", "source")}
    return ComparedRow(
        name=key[0],
        op_type=key[1],
        sides=sides,
        changes=tuple(_minus(side, sides[0]) for side in sides[1:]),
        launches=each("launches"),
        uses_tc=tuple(None if part is None or not part.uses_tc else _verdict(part.uses_tc) for part in parts),
        tc_ns=each("tc_ns"),
        **agreed,
    )


def _verdict(found: set[str]) -> str:
    return next(iter(found)) if len(found) == 1 else MIXED


def _minus(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one - other


def _shared(found: Iterable[set[str | None]]) -> str | None:
    values = {value for each in found for value in each} - {None}
    return values.pop() if len(values) == 1 else None


def _order(row: ComparedRow) -> tuple[float, float, str, str]:
    changed = max((abs(change) for change in row.changes if change is not None), default=0.0)
    return (-changed, -max((side for side in row.sides if side is not None), default=0.0), row.name, row.op_type or "")
