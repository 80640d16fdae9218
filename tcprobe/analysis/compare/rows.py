"""Join the layers, ops and kernels of several runs, find kernels that took the place of others, and what was logged."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from tcprobe.analysis.compare.names import Renaming, kernel_names, layer_names, op_names
from tcprobe.analysis.compare.runs import Run
from tcprobe.analysis.ops.table import NO_OP
from tcprobe.grouping import lasting_since
from tcprobe.schema.columns import Row, Table, Value
from tcprobe.schema.comparison import ComparedRow, Loss, Renamed
from tcprobe.schema.records import text_of

MIXED: Final = "unknown"
Key: TypeAlias = tuple[str, str | None]
"""Name in the comparison, and type of an op."""


class _Part(NamedTuple):
    """One row of `layers`, `ops` or `kernels`: its times within the window, None where unknown, and where it stands."""

    ns: float | None
    launches: float | None
    tc_ns: float | None
    uses_tc: str | None = None
    layer: str | None = None
    pass_: str | None = None
    source: str | None = None


Parts: TypeAlias = Mapping[Key, Sequence[_Part]]


class Joined(NamedTuple):
    """The rows of all runs under their common names."""

    # layers, ops, kernels: of each run; None where a run has no such times.
    layers: list[Parts | None]
    ops: list[Parts | None]
    kernels: list[Parts | None]
    # of each run, op, kernel and its time; ops are `NO_OP` where the source names none
    kernels_by_op: list[list[tuple[Key, str, float]]]


def joined(runs: Sequence[Run]) -> Joined:
    """Return the layers, ops and kernels of each run, in ns within the window."""
    layers, ops, kernels = ([run.profile.require(name) for run in runs] for name in ("layers", "ops", "kernels"))
    layer = layer_names([_given(table, "layer") for table in layers])
    op = op_names([_given(o, "op") | _given(k, "op") for o, k in zip(ops, kernels, strict=True)])
    kernel = kernel_names([_given(table, "kernel") for table in kernels])
    types = _types(ops + kernels, op + op)
    return Joined(
        [_layers(t, n) for t, n in zip(layers, layer, strict=True)],
        [_ops(t, n, m, types) for t, n, m in zip(ops, op, layer, strict=True)],
        [_kernels(t, n) for t, n in zip(kernels, kernel, strict=True)],
        [_by_op(t, n, m, types) for t, n, m in zip(kernels, kernel, op, strict=True)],
    )


def _given(table: Table, column: str) -> set[str]:
    return {name for name in table.names(column).tolist() if name is not None}


def _types(tables: Sequence[Table], named: Sequence[Renaming]) -> dict[str, str]:
    """Return the types of ops that have one type in all the runs that tell it, by name: some reports tell none."""
    types = defaultdict[str, set[str]](set)
    for table, names in zip(tables, named, strict=True):
        for op, op_type in {*zip(table.names("op").tolist(), table.names("op_type").tolist(), strict=True)}:
            if op is not None and op_type is not None:
                types[names[op]].add(op_type)
    return {name: min(each) for name, each in types.items() if len(each) == 1}


def _layers(table: Table, named: Renaming) -> Parts | None:
    return _grouped(
        ((named[str(row["layer"])], None), _Part(*_times(row), source=text_of(row["source"]))) for row in table.rows()
    )


def _ops(table: Table, named: Renaming, layers: Renaming, types: Mapping[str, str]) -> Parts | None:
    """Return the ops; one without a kernel takes no time where others have kernels."""
    rows = list(table.rows())
    timed = any(row["sum_ns"] is not None for row in rows)
    return _grouped(
        (
            _op(named[str(row["op"])], row, types),
            _Part(
                *_times(row),
                "yes" if row["tc_ns"] else "no" if row["tc_ns"] == 0 and not row["unknown_ns"] else "unknown",
                layers.get(str(row["layer"]), text_of(row["layer"])),
                text_of(row["pass"]),
                text_of(row["source"]),
            ),
        )
        for row in rows
        if row["sum_ns"] is not None or not timed
    )


def _kernels(table: Table, named: Renaming) -> Parts | None:
    return _grouped(
        (
            (named[str(row["kernel"])], None),
            _Part(
                _number(row["sum_ns"]),
                _number(row["calls"]),
                {"yes": _number(row["sum_ns"]), "no": 0.0}.get(str(row["uses_tc"])),
                str(row["uses_tc"]),
            ),
        )
        for row in table.rows()
    )


def _by_op(table: Table, named: Renaming, ops: Renaming, types: Mapping[str, str]) -> list[tuple[Key, str, float]]:
    return [
        (
            _op(ops[str(row["op"])], row, types) if row["op"] is not None else (NO_OP, None),
            named[str(row["kernel"])],
            float(row["sum_ns"]),
        )
        for row in table.rows()
        if row["sum_ns"] is not None
    ]


def _op(name: str, row: Row, types: Mapping[str, str]) -> Key:
    return name, text_of(row["op_type"]) or types.get(name)


def _times(row: Row) -> tuple[float | None, float | None, float | None]:
    """Return the times of a layer or op; that on Tensor Cores is not known where the class of a kernel is not."""
    return _number(row["sum_ns"]), _number(row["launches"]), None if row["unknown_ns"] else _number(row["tc_ns"])


def _grouped(rows: Iterable[tuple[Key, _Part]]) -> Parts | None:
    """Return rows by name and type; None where none has a time."""
    parts = defaultdict[Key, list[_Part]](list)
    for key, part in rows:
        parts[key].append(part)
    return parts if any(_sum(part.ns for part in each) is not None for each in parts.values()) else None


def _sum(values: Iterable[float | None]) -> float | None:
    """Return the sum; None where one of them is unknown."""
    known = list(values)
    return None if None in known else sum((value or 0.0 for value in known), 0.0)


def _number(value: Value) -> float | None:
    return None if value is None else float(value)


def compared_rows(runs: Sequence[Run], parts: Sequence[Parts | None]) -> tuple[ComparedRow, ...]:
    """Return the rows of all runs, largest change first; empty where no run has times."""
    keys = {key for each in parts if each is not None for key in each}
    rows = [_row(key, [None if p is None else p.get(key, ()) for p in parts], runs) for key in keys]
    return tuple(sorted((row for row in rows if any(side is not None for side in row.sides)), key=_order))


def _row(key: Key, parts: Sequence[Sequence[_Part] | None], runs: Sequence[Run]) -> ComparedRow:
    def times(column: str) -> tuple[float | None, ...]:
        sums = (None if each is None else _sum(getattr(part, column) for part in each) for each in parts)
        return tuple(None if ns is None else ns * run.share for ns, run in zip(sums, runs, strict=True))

    def shared(column: str) -> str | None:
        values = {getattr(part, column) for each in parts for part in each or ()} - {None}
        return values.pop() if len(values) == 1 else None

    sides = times("ns")
    first = sides[0]
    return ComparedRow(
        name=key[0],
        op_type=key[1],
        sides=sides,
        changes=tuple(None if side is None or first is None else side - first for side in sides[1:]),
        launches=times("launches"),
        uses_tc=tuple(_verdict({part.uses_tc for part in each or ()}) for each in parts),
        tc_ns=times("tc_ns"),
        layer=shared("layer"),
        pass_=shared("pass_"),
        source=shared("source"),
    )


def _verdict(verdicts: set[str | None]) -> str | None:
    return verdicts.pop() if len(verdicts) == 1 else MIXED if verdicts else None


def _order(row: ComparedRow) -> tuple[float, float, str, str]:
    changed = max((abs(change) for change in row.changes if change is not None), default=0.0)
    return (-changed, -max((side for side in row.sides if side is not None), default=0.0), row.name, row.op_type or "")


Times: TypeAlias = defaultdict[str, float]
"""Kernel -> time within the window, in ns."""


def renamed_kernels(runs: Sequence[Run], rows: Joined) -> tuple[Renamed, ...]:
    """Return where other kernels run than in the first run, costliest first.

    Ops that both runs have are held against one another; of the others, layers that both have; the rest as a whole.
    """
    renamed = [one for number in range(1, len(runs)) for one in _against(runs, rows, number)]
    return tuple(sorted(renamed, key=lambda r: (-max(r.before_ns, r.after_ns), r.run, r.op or "", r.before)))


def _against(runs: Sequence[Run], rows: Joined, number: int) -> Iterator[Renamed]:
    before, after = ({op for op, _, _ in rows.kernels_by_op[run]} for run in (0, number))
    common = (before & after) - {(NO_OP, None)}
    sides = [_by_place(rows.kernels_by_op[run], common, rows.ops[run]) for run in (0, number)]
    both = sides[0].keys() & sides[1].keys()
    rest = [Times(float), Times(float)]
    for side, total in zip(sides, rest, strict=True):
        for place, times in side.items():
            for kernel, ns in times.items() if place is None or place not in both else ():
                total[kernel] += ns
    compared = [(place[0], sides[0][place], sides[1][place]) for place in sorted(both - {None}, key=str) if place]
    for op, one, other in (*compared, (None, rest[0], rest[1])):
        left, came = one.keys() - other.keys(), other.keys() - one.keys()
        if left and came:
            sums = (sum(one[k] for k in left) * runs[0].share, sum(other[k] for k in came) * runs[number].share)
            yield Renamed(op, _costliest(left, one), _costliest(came, other), *sums, run=number)


def _by_place(rows: Iterable[tuple[Key, str, float]], common: set[Key], ops: Parts | None) -> dict[Key | None, Times]:
    """Return the kernels of each op that both runs have, and of each layer and pass of the others; None is the rest."""
    places = defaultdict[Key | None, Times](lambda: Times(float))
    for op, kernel, ns in rows:
        places[op if op in common else _layer_of(op, ops or {})][kernel] += ns
    return places


def _layer_of(op: Key, ops: Parts) -> Key | None:
    """Return layer and pass of an op, under a type that no op has."""
    layers, passes = ({getattr(part, name) for part in ops.get(op, ())} for name in ("layer", "pass_"))
    layer = layers.pop() if len(layers) == 1 else None
    return None if layer is None else (layer, f"layer {passes.pop() if len(passes) == 1 else None}")


def _costliest(kernels: Iterable[str], times: Times) -> tuple[str, ...]:
    return tuple(sorted(kernels, key=lambda kernel: (-times[kernel], kernel)))


Series: TypeAlias = dict[int | None, float]
"""Step -> what was logged in it; None: before the first step."""


def losses_of(runs: Sequence[Run]) -> tuple[Loss, ...]:
    """Return what the workloads logged, losses first, then by name; a name that one run logged alone has no steps."""
    logged = [logged_series(run.profile.require("metrics")) for run in runs]
    names = sorted({name for each in logged for name in each}, key=lambda name: ("loss" not in name.lower(), name))
    return tuple(_loss(name, [each.get(name, {}) for each in logged]) for name in names)


def _loss(name: str, series: Sequence[Series]) -> Loss:
    seen = Counter(step for one in series for step in one if step is not None)
    steps = tuple(sorted(step for step, runs in seen.items() if runs > 1))
    values = tuple(tuple(one.get(step) for step in steps) for one in series)
    last, since = zip(*map(last_of, series), strict=True)
    return Loss(name, steps, values, last, since)


def last_of(one: Series) -> tuple[float | None, int | None]:
    """Return the last value, and the step since which it is that, if it is NaN or an infinity."""
    steps = sorted(one, key=lambda step: -1 if step is None else step)
    since = lasting_since(np.array([one[step] for step in steps]))
    return one[steps[-1]] if steps else None, None if since is None else steps[since]


def logged_series(metrics: Table) -> dict[str, Series]:
    """Return what was logged under each name; of several values in one step their mean."""
    if not len(metrics):
        return {}
    names, values = metrics.names("name"), metrics.numbers("value")
    steps = np.nan_to_num(metrics.numbers("step"), nan=-1.0).astype(np.int64)
    order = np.lexsort((values, steps, names.ids))  # the values too: a sum depends on the order
    name, step, value = names.ids[order], steps[order], values[order]
    starts = np.flatnonzero(np.append(True, (np.diff(name) != 0) | (np.diff(step) != 0)))
    with np.errstate(invalid="ignore", over="ignore"):
        means = np.add.reduceat(value, starts) / np.diff(np.append(starts, len(value)))
    logged = defaultdict[str, Series](dict)
    for one, when, mean in zip(name[starts].tolist(), step[starts].tolist(), means.tolist(), strict=True):
        logged[names.names[one]][when if when >= 0 else None] = mean
    return logged
