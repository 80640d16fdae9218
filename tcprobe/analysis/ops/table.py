"""Build the `ops` table: the time of each op, its layer and shapes, and what keeps it off the Tensor Cores.

Split the time of an op whose shapes change from call to call: each step's kernels are of the shapes of that step.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final, TypeAlias

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from tcprobe.analysis.capability import is_capable, why_not
from tcprobe.analysis.context import Context
from tcprobe.analysis.kernels.launches import UNKNOWN, YES, Launched
from tcprobe.analysis.ops.attribution import (
    Attribution,
    GraphIndex,
    OpName,
    attribute_ops,
    graph_record,
    profile_record,
)
from tcprobe.analysis.ops.xla import XlaJoin
from tcprobe.analysis.phases import calls_by_shapes
from tcprobe.gemm.ops import contiguous_sizes, gemms_of
from tcprobe.gemm.record import all_aligned, flops_of, parse_json_shapes
from tcprobe.grouping import distinct_rows, ranks, sum_by, union_by
from tcprobe.schema.columns import IntArray, Row, Table, Value
from tcprobe.schema.op import OpRecord, Size
from tcprobe.schema.profile import Profile
from tcprobe.schema.records import text_of
from tcprobe.schema.tables import OPS


def split_by_step(
    where: Sequence[Sequence[int]], called: Mapping[int, Sequence[int]], launched: Launched
) -> Iterator[tuple[list[int], int]]:
    """Yield a row of the graph with time of its kernels, of ops that are rows which steps alone tell apart.

    An op of which some kernel is of no step, or of one that ran it in several shapes, is left out.

    Args:
        where: rows of the graph that each row of `op_details` may be.
        called: the counted steps in which each row was called; of rows whose shapes change.
        launched: the launches.
    """
    mine = [entry for entry, rows in enumerate(where) if len(rows) > 1 and all(row in called for row in rows)]
    if not mine:
        return
    groups = launched.groups
    of = np.where(groups.counted & np.isin(groups.op, mine), groups.op, -1)[groups.of_launch]
    launches = np.flatnonzero(of >= 0)
    step, spent = (groups.launches.numbers(name)[launches] for name in ("iteration", "duration_ns"))
    (ops, steps), place = distinct_rows(of[launches], np.nan_to_num(step, nan=-1.0).astype(np.int64))
    times = sum_by(place, spent, len(ops)).tolist()
    rows_of = {entry: {n: [r for r in where[entry] if n in called[r]] for n in {*steps.tolist()}} for entry in mine}
    unsure = {op for op, n in zip(ops.tolist(), steps.tolist(), strict=True) if len(rows_of[op][n]) != 1}
    for op, n, time in zip(ops.tolist(), steps.tolist(), times, strict=True):
        if op not in unsure:
            yield rows_of[op][n], time


NO_OP: Final = "(no op)"
_PRECISION_DTYPES: Final = {
    "fp32": "float32", "tf32": "float32", "fp16": "float16", "bf16": "bfloat16", "fp64": "float64",
}  # fmt: skip
OpIdentity: TypeAlias = tuple[str, str | None]


def identity_of(row: Row) -> OpIdentity:
    """Return the op of a row by its name and type, where the table has types."""
    return str(row["op"]), text_of(row.get("op_type"))


class Ops(Struct, frozen=True):
    """The ops table and the time of the graph's records."""

    table: Table  # `ops` of the contract
    graph_ns: dict[int, int]  # row of `graph_ops` -> summed kernel time of the ops that are surely executions of it
    ran: frozenset[int] = frozenset()  # rows of `graph_ops` that ops of the profile are
    # row of `graph_ops` -> number of GPUs that ran those ops: each executes them by itself
    graph_gpus: dict[int, int] = field(default_factory=dict)
    detail_gpus: dict[int, int] = field(default_factory=dict)  # likewise by row of `op_details`
    # row of `op_details` -> summed time of its kernels, where launches tell
    detail_ns: dict[int, int] = field(default_factory=dict)
    # op and type, as in the table -> rows of `graph_ops` that it may be
    rows_of: dict[OpIdentity, tuple[int, ...]] = field(default_factory=dict)


class _OpEntry(Struct):
    """One op of the profile: its row so far, its names, its shapes."""

    row: Row
    name: OpName
    records: list[OpRecord]


def build_ops(
    profile: Profile, join: XlaJoin, beside: Table, launched: Launched | None, kernels: Table, context: Context
) -> Ops | None:
    """Return the ops of the profile, of what was read of them, or of the graph; None where there are none.

    Args:
        profile: recorded tables, and `ops` where the source has a table of its own.
        join: the graph, joined with what XLA ran of it.
        beside: what the graph has of parts of training that a counted step does not call; other threads may run them.
        launched: launches with their class; None where the source has sums only.
        kernels: of the window.
        context: GPU that blockers are judged against.
    """
    graph = join.graph
    found = _timed(profile, launched, kernels)
    if launched is None or launched.groups.counted.all():  # sums over the whole capture may stand beside
        _add_read(found, profile)
    index = GraphIndex(graph, join.runs_as, profile.table("scopes"))
    attributed = attribute_ops([f.name for f in found.values()], index)
    ran = frozenset(row for a in attributed for row in a.rows)
    if launched is None and not len(kernels):
        attributed += _add_graph(found, graph, index, attributed)
    if not found or set(found) == {(NO_OP, None)}:
        return None
    told = _KernelFacts.of(kernels)
    named = [(a, graph) for a in attributed]
    if len(beside):
        others = attribute_ops([f.name for f in found.values()], GraphIndex(beside, {}, profile.table("scopes")))
        named = [(b, beside) if b.rows and not a.rows else (a, graph) for a, b in zip(attributed, others, strict=True)]
    rows = [_row(f, *where, context, told) for f, where in zip(found.values(), named, strict=True)]
    by_op = _by_op(rows, attributed)
    rows_of = {identity_of(row): tuple(a.rows) for row, a in zip(rows, attributed, strict=True)}
    rows.sort(key=_order)
    table = Table.from_rows(OPS, rows)
    if launched is None:
        return Ops(table, by_op, ran, rows_of=rows_of)
    instructions, times, devices = _instructions(profile, launched)
    where = [index.find(name) if name.may_multiply else [] for name in instructions]
    called = calls_by_shapes(graph, profile.metadata.window)
    ran_on: dict[int, set[int]] = {}
    for entry, device in devices:
        for row in where[entry] if len(where[entry]) == 1 or all(row in called for row in where[entry]) else ():
            ran_on.setdefault(row, set()).add(device)
    graph_gpus = {row: len(found) for row, found in ran_on.items()}
    detail_gpus = dict(Counter(entry for entry, _ in devices))
    sure = chain(zip(where, times, strict=True), split_by_step(where, called, launched))
    graph_ns, detail_ns = _certain(sure), dict(enumerate(times))
    return Ops(table, graph_ns, ran, graph_gpus, detail_gpus, detail_ns, rows_of)


def _instructions(profile: Profile, launched: Launched) -> tuple[list[OpName], list[int], list[tuple[int, int]]]:
    """Return name and time of each entry of `op_details`, and the pairs (entry, GPU) that occur.

    XLA runs several instructions under one op's name: each is an entry of its own.
    """
    details = profile.require("op_details")
    columns = (details.names(c).tolist() for c in ("op", "op_type", "hlo_module", "hlo_op"))
    names = [OpName(str(op), *rest) for op, *rest in zip(*columns, strict=True)]
    groups = launched.groups
    known = groups.counted & (groups.op >= 0)
    times = sum_by(groups.op[known], groups.sum_ns[known], len(details)).tolist()
    (ops, devices), _ = distinct_rows(groups.op[known], groups.device[known])
    return names, times, list(zip(ops.tolist(), devices.tolist(), strict=True))


def _by_op(rows: list[Row], attributed: list[Attribution]) -> dict[int, int]:
    return _certain((a.rows, int(row.get("sum_ns") or 0)) for row, a in zip(rows, attributed, strict=True))


def _certain(pairs: Iterable[tuple[Sequence[int], int]]) -> dict[int, int]:
    """Add up the time of each row of the graph, of what is surely an execution of it: of that row and no other."""
    spent: Counter[int] = Counter()
    for rows, time in pairs:
        if len(rows) == 1 and time:
            spent[rows[0]] += time
    return dict(spent)


def _order(row: Row) -> tuple[float, float, str, str]:
    """Sort the costliest first, equals by name, so that the order of the input does not show."""
    spent = row.get("sum_ns") if row.get("sum_ns") is not None else row.get("union_ns")
    return -float(spent or 0), -float(row.get("host_ns") or 0), str(row["op"]), str(row.get("op_type"))


class _KernelFacts(Struct, frozen=True):
    """What kernels say of the ops that launched them."""

    # on which the names of all its kernels agree, for profiles that have none of their own
    dtypes: dict[OpIdentity, str]
    idle: dict[OpIdentity, str]  # the costliest of its kernels that does not use Tensor Cores

    @classmethod
    def of(cls, kernels: Table) -> _KernelFacts:
        """Collect from the kernels of the window, costliest first."""
        op, op_type, precision, kernel = (kernels.names(c) for c in ("op", "op_type", "precision", "kernel"))
        (ops, types, precisions), _ = distinct_rows(op.ids, op_type.ids, precision.ids)
        said: dict[OpIdentity, set[Value]] = {}
        for o, t, p in zip(ops.tolist(), types.tolist(), precisions.tolist(), strict=True):
            if o >= 0 and p >= 0:
                key = (op.names[o], op_type.names[t] if t >= 0 else None)
                said.setdefault(key, set()).add(_PRECISION_DTYPES.get(precision.names[p]))
        agreed = {key: found.pop() for key, found in said.items() if len(found) == 1}
        dtypes = {key: str(dtype) for key, dtype in agreed.items() if dtype is not None}
        spent = kernels.numbers("sum_ns")
        mine = np.flatnonzero((op.ids >= 0) & kernels.names("uses_tc").among("no") & (spent > 0))
        order = mine[np.lexsort((ranks(kernel.names)[kernel.ids[mine]], -spent[mine]))]
        (ops, types), place = distinct_rows(op.ids[order], op_type.ids[order])
        first = np.full(len(ops), len(order))
        np.minimum.at(first, place, np.arange(len(order)))
        costliest = [(op[row], op_type[row], kernel[row]) for row in order[first].tolist()]
        return cls(dtypes, {(str(o), t): str(k) for o, t, k in costliest})


def _timed(profile: Profile, launched: Launched | None, kernels: Table) -> dict[OpIdentity, _OpEntry]:
    if launched is not None:
        return _from_launches(profile, launched)
    found: dict[OpIdentity, _OpEntry] = {}
    for kernel in kernels.rows():
        key = (NO_OP if kernel["op"] is None else str(kernel["op"]), text_of(kernel["op_type"]))
        row = found.setdefault(key, _OpEntry({"op": key[0], "op_type": key[1]}, OpName(*key), [])).row
        spent = kernel["sum_ns"]
        _accumulate(row, "launches", kernel["calls"])
        _accumulate(row, "sum_ns", spent)
        for column, verdict in (("tc_ns", "yes"), ("unknown_ns", "unknown")):
            _accumulate(row, column, spent if kernel["uses_tc"] == verdict else 0)
    return found


def _accumulate(row: Row, column: str, value: Value) -> None:
    """Add `value` to a sum of the row; None makes the sum None."""
    before = row.get(column, 0)
    row[column] = None if value is None or before is None else int(before) + int(value)


def _from_launches(profile: Profile, launched: Launched) -> dict[OpIdentity, _OpEntry]:
    details, groups = profile.require("op_details"), launched.groups
    keys, of_detail = _op_keys(details)
    mine = np.flatnonzero(groups.counted)
    (found,), row = distinct_rows(of_detail[groups.op[mine]])  # the last entry stands for no op
    (devices,), device = distinct_rows(groups.device[mine])
    size, each = len(found), len(devices)
    part = np.full(len(groups), -1, np.int32)
    part[mine] = row * np.int32(each) + device
    start, spent = (groups.launches.numbers(c) for c in ("start_ns", "duration_ns"))
    spans = union_by(part[groups.of_launch], start, spent, size * each)
    sums = {
        "launches": groups.calls,
        "sum_ns": groups.sum_ns,
        "tc_ns": launched.time_of(YES),
        "unknown_ns": launched.time_of(UNKNOWN),
    }
    columns = {name: sum_by(row, values[mine], size).tolist() for name, values in sums.items()}
    columns["union_ns"] = spans.reshape(size, each).sum(axis=1).tolist()
    described = _described(details, of_detail)
    return {
        keys[g]: _entry(details, keys[g], described.get(g, []), {c: v[i] for c, v in columns.items()})
        for i, g in enumerate(found.tolist())
    }


def _op_keys(details: Table) -> tuple[list[OpIdentity], IntArray]:
    """Return the distinct (op, type), and for each row of `op_details`, then for no op, its position among them."""
    index: dict[OpIdentity, int] = {}
    pairs = zip(details.names("op").tolist(), details.names("op_type").tolist(), strict=True)
    positions = [index.setdefault((str(op), op_type), len(index)) for op, op_type in pairs]
    positions.append(index.setdefault((NO_OP, None), len(index)))
    return list(index), np.array(positions, np.int64)


def _described(details: Table, of_detail: IntArray) -> dict[int, list[int]]:
    rows: dict[int, list[int]] = {}
    for row, group in enumerate(of_detail[: len(details)].tolist()):
        rows.setdefault(group, []).append(row)
    return rows


def _entry(details: Table, key: OpIdentity, rows: list[int], figures: dict[str, int]) -> _OpEntry:
    told = ("hlo_module", "hlo_op", "layer", "pass")
    others = (_same(details.names(c)[r] for r in rows) for c in told)
    records = [profile_record(details, r) for r in rows]
    row: Row = {"op": key[0], "op_type": key[1], **figures}
    row["called_from"] = _same(details.names("called_from")[r] for r in rows)
    return _OpEntry(row, OpName(*key, *others), records)


def _same(values: Iterator[Any]) -> Any:
    """Return the one value that all share; None where they differ or there are none."""
    found = set(values)
    return found.pop() if len(found) == 1 else None


def _add_read(found: dict[OpIdentity, _OpEntry], profile: Profile) -> None:
    """Add ops and figures that the source has in tables of its own; derived figures stay."""
    for read in profile.require("ops").rows():
        _merge(found, {k: v for k, v in read.items() if v is not None})
    for host in profile.require("host_ops").rows():
        row = {"op": host["op"], "op_type": host["op_type"], "calls": host["calls"], "host_ns": host["sum_ns"]}
        _merge(found, row, str(host["input_shapes"] or ""))


def _merge(found: dict[OpIdentity, _OpEntry], row: Row, shapes: str = "") -> None:
    key = identity_of(row)
    entry = found.setdefault(key, _OpEntry({"op": key[0], "op_type": key[1]}, OpName(*key), []))
    for column, value in row.items():
        if entry.row.get(column) is None:
            entry.row[column] = value
    if shapes and not entry.records:
        entry.records.append(OpRecord(key[1] or "", parse_json_shapes(shapes)))


def _add_graph(
    found: dict[OpIdentity, _OpEntry], graph: Table, index: GraphIndex, attributed: list[Attribution]
) -> list[Attribution]:
    """Add the ops of the graph that execute and that no op of the profile is."""
    joined = {row for a in attributed for row in a.rows}
    added: list[OpName] = []
    for row, record in enumerate(graph.rows()):
        key = (str(record["executed_op"] or record["op"]), text_of(record["executed_type"] or record["op_type"]))
        if row not in joined and record["executes"] == "yes" and key not in found:
            found[key] = _OpEntry({"op": key[0], "op_type": key[1]}, OpName(*key), [])
            added.append(found[key].name)
    return attribute_ops(added, index)


def _row(found: _OpEntry, where: Attribution, graph: Table, context: Context, kernels: _KernelFacts) -> Row:
    direction = where.pass_ or text_of(found.row.get("pass"))
    records = [graph_record(graph, r) for r in where.rows] or [replace(r, pass_=direction) for r in found.records]
    row: Row = {
        "layer": where.layer, "pass": where.pass_, "source": where.source, "called_from": where.called_from,
        "dtype": _same(r.dtype for r in found.records or records) or _same(r.dtype for r in records),
        "shapes": _same(_shapes(r) for r in found.records or records) or _same(_shapes(r) for r in records),
        "flops": _same(_flops(graph, records, where.rows)),
        "basis": where.basis or ("shape" if any(r.input_shapes for r in records) else None),
    }  # fmt: skip
    row = {**row, **{k: v for k, v in found.row.items() if v is not None}}
    key = identity_of(row)
    row["dtype"] = row["dtype"] or kernels.dtypes.get(key)
    if row["op"] == NO_OP:
        return {**row, "tc_capable": "unknown"}
    return {**row, **_capability(row, records, context, kernels.idle.get(key))}


def _flops(graph: Table, records: list[OpRecord], rows: Sequence[int]) -> Iterator[int | None]:
    """Yield the FLOPs of one execution of each op that these may be; an instruction of XLA may hold several dots.

    What runs eagerly has no name of its own: all ops of one type run under that of the type.
    """
    names = ("function", "called_in", "executed_op", "op", "executes_basis")
    columns = [graph.names(name) for name in names]
    together: dict[object, list[OpRecord]] = {}
    for place, record in enumerate(records):
        function, called, executed, op, basis = (c[rows[place]] for c in columns) if rows else (place, *(None,) * 4)
        together.setdefault((function, called, place if basis == "eager" else executed or op), []).append(record)
    for members in together.values():
        yield flops_of([gemm for record in members for gemm in gemms_of(record)])


def _capability(row: Row, records: list[OpRecord], context: Context, kernel: str | None) -> Row:
    types = [text_of(row.get("op_type")), *dict.fromkeys(r.op_type for r in records)]
    spent, unclear, said = row.get("tc_ns"), row.get("unknown_ns"), row.get("tc_blocker_kind")
    capable = "yes" if spent or row.get("tc_capable") == "yes" else is_capable(types)
    if capable != "yes":
        return {"tc_capable": capable, "tc_blocker_kind": None}
    if spent or said is not None:
        return {"tc_capable": capable, "tc_blocker_kind": "none" if spent else said}
    aligned = all_aligned(_contiguous(records), text_of(row.get("dtype")))
    idle = spent is not None and not unclear and (row.get("sum_ns") or row.get("union_ns"))
    uses = None if not context.measured else "no" if idle else "unknown"
    kind = next((t for t in types if is_capable([t]) == "yes"), types[0])
    why = why_not(kind, text_of(row.get("dtype")), context, aligned, uses, kernel)
    return {"tc_capable": capable, **why.columns()}


def _contiguous(records: list[OpRecord]) -> tuple[Size, ...]:
    return contiguous_sizes(gemms_of(records[0])) if records else ()


def _shapes(record: OpRecord) -> str | None:
    """Return ``[[7, 10], [10, 30]] -> [7, 30]`` as JSON, null for what is unknown; None where nothing is known."""
    if not record.input_shapes and record.output_shape is None:
        return None
    return f"{json.dumps(record.input_shapes)} -> {json.dumps(record.output_shape)}"
