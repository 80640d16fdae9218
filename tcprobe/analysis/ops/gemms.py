"""Build the `gemms` table: the matrix multiplications of the graph, or those whose shapes the profile has.

Build the `layers` table: sums over the ops of each layer.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from tcprobe.analysis.capability import why_not
from tcprobe.analysis.context import Context
from tcprobe.analysis.ops.attribution import graph_record, profile_record
from tcprobe.analysis.ops.counts import calls_per_step
from tcprobe.analysis.ops.paths import is_name_stack, parse_path
from tcprobe.analysis.ops.table import Ops
from tcprobe.gemm.ops import contiguous_sizes, family_of, gemms_of
from tcprobe.gemm.record import all_aligned, parse_object
from tcprobe.schema.columns import Row, Table, Value
from tcprobe.schema.op import OpRecord
from tcprobe.schema.profile import Profile
from tcprobe.schema.records import text_of
from tcprobe.schema.tables import GEMMS, LAYERS

LARGEST_CALLS: Final = 1e9
_COUNTER: Final = re.compile(r"^(?:__inference_|__forward_|__backward_)?(.*?)(?:_\d+)?$")


class Gemms(Struct, frozen=True):
    """The gemms table and what its rows cost in a step."""

    table: Table  # `gemms` of the contract
    step_flops: tuple[int | None, ...] = ()  # per row: FLOPs of all its executions in one step, None where unknown
    records: tuple[int, ...] = ()  # per row: which op it is of; rows of one op share a number
    ops: tuple[int, ...] = ()  # per row: which op it is of, whatever the shapes of its calls; in a step, one op
    # rows of `graph_ops` that count: one trace of each function; there `records` are among them
    graph_rows: tuple[int, ...] = ()
    gpus: tuple[int | None, ...] = ()  # per row: number of GPUs that each execute it, None where that is not known
    # per row: whether it repeats a product of the forward pass to take its gradient, None where nothing tells
    recomputed: tuple[bool | None, ...] = ()
    # whether they are TensorFlow's ops, which make one step together; XLA's modules may be any programs
    traced: bool = False
    unseen: int = 0  # number of ops that multiply matrices and whose shapes the profile does not have


def build_gemms(profile: Profile, ops: Ops | None, context: Context) -> Gemms:
    """Return the multiplications of the graph; without one, those of the ops whose shapes the profile has.

    An op of the profile counts once a step. Several traces of one function count as the one that executes and
    whose shapes are known best.
    """
    graph = profile.require("graph_ops")
    if not len(graph):
        return _from_profile(profile, ops, context)
    kept = one_trace_each(graph)
    spent = ops.graph_ns if ops else {}
    rows: list[Row] = []
    steps: list[int | None] = []
    numbers: list[int] = []
    records = list(graph.rows())
    for index in kept:
        record = graph_record(graph, index)
        times, at_least = executions(records[index]["calls_per_step"]), records[index]["at_least"] is True
        told: Row = {"calls_per_step": times, "at_least": at_least, "basis": "graph"}
        for row in _rows(record, records[index], context):
            rows.append({**row, **told, "kernel_ns": spent.get(index)})
            numbers.append(index)
            steps.append(None if row["flops"] is None or times is None else round(int(row["flops"]) * times))
    ran_on = ops.graph_gpus if ops else {}
    gpus = tuple(ran_on.get(index) for index in numbers)
    again = {index: _is_recomputed(records[index]) for index in kept}
    return Gemms(
        Table.from_rows(GEMMS, rows), tuple(steps), tuple(numbers), _ops(records, numbers), tuple(kept), gpus,
        tuple(again[index] for index in numbers), _is_traced(graph),
    )  # fmt: skip


def _ops(records: Sequence[Row], numbers: Sequence[int]) -> tuple[int, ...]:
    """Return which op each row is of: rows of the graph are of one where only the shapes of calls set them apart."""
    found: dict[tuple[Value, ...], int] = {}
    keys = [
        (row["part"], row["op"], row["op_type"]) if (row := records[number])["called_in"] is not None else (number,)
        for number in numbers
    ]
    return tuple(found.setdefault(key, number) for key, number in zip(keys, numbers, strict=True))


def _is_recomputed(row: Row) -> bool | None:
    """Return whether a product of the graph repeats one of the forward pass; None where nothing tells.

    The probe marks what a layer makes that is called again to take a gradient. JAX runs it in a scope of its own, and
    XLA numbers what it repeats itself; XProf goes by the same names (xla_op_utils.h, IsRematerialization).
    """
    op, instruction = str(row["op"]), str(row["executed_op"])
    if not (family_of(str(row["op_type"])) or "").startswith("hlo"):
        return parse_object(str(row["attributes"])).get("recomputed") is True
    if "rematted_computation" in op.split("/") or ".remat" in instruction:
        return True
    return False if is_name_stack(op) or parse_path(op).gradient else None


def is_instruction(record: OpRecord) -> bool:
    """Say whether an op is an instruction of XLA."""
    return (family_of(record.op_type) or "").startswith("hlo")


def executions(calls_per_step: Value) -> float | None:
    """Return how often an op runs in a step; None where that is not recorded, or is no such number."""
    count = -1.0 if calls_per_step is None else float(calls_per_step)
    return count if 0.0 <= count <= LARGEST_CALLS else None


def uncounted(function: str) -> str:
    """Return the name of a traced function without what TensorFlow adds to tell traces apart."""
    found = _COUNTER.match(function)
    return found[1] if found else function


def _is_traced(graph: Table) -> bool:
    families = [family_of(op_type) for op_type in graph.names("op_type").names]
    return any(f is not None and not f.startswith("hlo") for f in families)


def _rows(record: OpRecord, source: Row, context: Context) -> list[Row]:
    gemms = gemms_of(record)
    aligned = all_aligned(contiguous_sizes(gemms), record.dtype)
    common: Row = {
        **{c: source.get(c) for c in ("op_type", "layer", "layer_class", "pass", "source", "called_from")},
        **{c: source.get(c) for c in ("executes", "executes_basis")},
        "op": source["op"] if is_instruction(record) else source.get("executed_op") or source["op"],
        "dtype": record.dtype,
        **why_not(record.op_type, record.dtype, context, aligned, None).columns(),
    }
    return [{**common, "m": g.m, "n": g.n, "k": g.k, "batch": g.batch, "flops": g.flops} for g in gemms]


def one_trace_each(graph: Table) -> list[int]:
    """Return the rows of `graph_ops` without repeated traces of the same function.

    Beside traced ops, XLA's instructions for them do not count again. Traces repeat each other where function
    names differ by TensorFlow's counter only and the same ops are in them; not where the probe saw that they are
    different parts of training (one function that trains a model after the other), or which calls ran each. The one
    that executes stays, then the one with fewer unknown dimensions, then the first.
    """
    rows: dict[tuple[str, Value], list[int]] = {}
    families = [family_of(op_type) for op_type in graph.names("op_type").tolist()]
    traced = _is_traced(graph)
    called = graph.values("called_in")
    for row, function in enumerate(graph.values("function")):
        if traced and (families[row] or "hlo").startswith("hlo"):
            continue
        rows.setdefault((str(function), called[row]), []).append(row)
    ops, parts = graph.values("op"), graph.values("part")
    traces: dict[tuple[str, Value, Value, tuple[str, ...]], list[tuple[str, Value]]] = {}
    for trace, members in rows.items():
        held = tuple(sorted(str(ops[r]) for r in members))
        traces.setdefault((uncounted(trace[0]), parts[members[0]], trace[1], held), []).append(trace)
    executes, shapes = graph.values("executes"), graph.values("input_shapes")

    def rank(trace: tuple[str, Value]) -> tuple[int, int]:
        members = rows[trace]
        unknown = sum(str(shapes[r]).count("null") for r in members)
        return (-sum(executes[r] == "yes" for r in members), unknown)

    return sorted(row for alike in traces.values() for row in rows[min(alike, key=rank)])


def _from_profile(profile: Profile, ops: Ops | None, context: Context) -> Gemms:
    """Return a row for each shape of an op of the profile, with the time of its kernels.

    An op is named by its place in the program and counts once a step, but for one that ranges name: that counts as
    often as it ran with these shapes.
    """
    details, gpus = profile.require("op_details"), ops.detail_gpus if ops else {}
    keys = list(zip(details.names("op").tolist(), details.names("op_type").tolist(), strict=True))
    known = {(row["op"], row["op_type"]): row for row in ops.table.rows()} if ops else {}
    alike: dict[tuple[object, ...], list[int]] = {}
    unseen: set[object] = set()
    for index, key in enumerate(keys):
        record = profile_record(details, index)
        if key in known and record.input_shapes:
            lies = details.names("attributes")[index]
            alike.setdefault((key, record.input_shapes, record.output_shape, lies), []).append(index)
        elif key in known and known[key]["tc_capable"] == "yes":
            unseen.add(key)
    shapes = Counter(keys[members[0]] for members in alike.values())
    calls, rows, numbers = calls_per_step(profile, gpus) if alike else {}, list[Row](), list[int]()
    for members in alike.values():
        first, source = members[0], known[keys[members[0]]]
        record = profile_record(details, first, text_of(source["pass"]), text_of(source["dtype"]))
        made = _rows(record, {**source, "executes": "yes"}, context)
        spent = _spent(ops, members, source, shapes[keys[first]]) if len(made) == 1 else None
        told: Row = {"calls_per_step": _sum(calls, members), "at_least": False, "basis": "shape", "kernel_ns": spent}
        rows += [{**row, **told} for row in made]
        numbers += [first] * len(made)
    ran_on, again = tuple(gpus.get(index) for index in numbers), (None,) * len(numbers)
    flops = tuple(_step_flops(row) for row in rows)
    return Gemms(
        Table.from_rows(GEMMS, rows), flops, tuple(numbers), tuple(numbers), (), ran_on, again, unseen=len(unseen)
    )


def _spent(ops: Ops | None, members: Sequence[int], source: Row, shapes: int) -> Value:
    """Return the time of the kernels of ops that are alike; of sums over all shapes of an op, of its only shape."""
    if ops is not None and ops.detail_ns:
        return sum(ops.detail_ns.get(row, 0) for row in members)
    return source["sum_ns"] if shapes == 1 else None


def _sum(calls: Mapping[int, float | None], members: Sequence[int]) -> float | None:
    """Return the calls of ops that are alike; one that no range names is called once."""
    known = [calls[row] for row in members if row in calls]
    return None if None in known else sum(count for count in known if count is not None) if known else 1.0


def _step_flops(row: Row) -> int | None:
    calls, flops = row["calls_per_step"], row["flops"]
    return None if calls is None or flops is None else round(int(flops) * float(calls))


NO_LAYER: Final = "(no layer)"
_SEEN: Final = ("calls", "launches", "sum_ns", "host_ns")  # what a profile says of an op


def build_layers(ops: Ops | None, gemms: Gemms, kernel_ns: float | None) -> Table | None:
    """Return one row per layer, costliest first; None where no op belongs to a layer.

    Ops that launched no kernel bear no kernel time; where no op does, the time is unknown. Kernels of ops outside
    any layer are the row ``(no layer)``, so that the rows add up to all kernel time, and to all FLOPs.

    Args:
        ops: of the profile.
        gemms: of the graph: GEMM-like ops and FLOPs of one step.
        kernel_ns: all kernel time, NA where nothing was measured.
    """
    members: dict[str, list[Row]] = {}
    for op in ops.table.rows() if ops else ():
        if op["layer"] is None and all(op[column] is None for column in _SEEN):
            continue  # of the graph alone: several layers share its name, and the graph's own rows count there
        members.setdefault(str(op["layer"] or NO_LAYER), []).append(op)
    steps = _per_step(gemms)
    for layer in steps:
        members.setdefault(layer, [])
    if set(members) <= {NO_LAYER}:
        return None
    rows = [_row(layer, found, steps.get(layer, {}), kernel_ns) for layer, found in members.items()]
    rows.sort(key=_cost)
    return Table.from_rows(LAYERS, rows)


def _cost(row: Row) -> tuple[float, float, str]:
    spent = row["sum_ns"] if row["sum_ns"] is not None else row["host_ns"]
    return (-float(spent or 0), -float(row["flops"] or 0), str(row["layer"]))


def _per_step(gemms: Gemms) -> dict[str, Row]:
    """Return class, source, ops and FLOPs of one step for each layer whose ops execute."""
    steps: dict[str, list[Row]] = {}
    places: Counter[int] = Counter()  # of the products of one record
    for gemm, flops, op, record in zip(gemms.table.rows(), gemms.step_flops, gemms.ops, gemms.records, strict=True):
        if gemm["executes"] != "no":
            row = {**gemm, "flops": flops, "product": f"{op} {places[record]}"}
            steps.setdefault(str(gemm["layer"] or NO_LAYER), []).append(row)
        places[record] += 1
    return {layer: _step(rows) for layer, rows in steps.items()}


def _step(rows: list[Row]) -> Row:
    """Count what surely executes: a lower bound where that, or how often, is not known of some, NA where of all."""
    sure = [row for row in rows if row["executes"] == "yes"]
    told = [row for row in sure if row["calls_per_step"] is not None]
    return {
        "gemms": len({row["product"] for row in sure}) or None,
        "flops": _summed(row["flops"] for row in told) if told else None,
        "at_least": len(told) < len(rows) or any(row["at_least"] for row in told),
        "layer_class": _shared(row["layer_class"] for row in rows),
        "source": _shared(row["source"] for row in rows),
    }


_PASSES: Final = ("forward", "dgrad", "wgrad")


def _row(layer: str, ops: list[Row], step: Row, kernel_ns: float | None) -> Row:
    timed = [op for op in ops if op["sum_ns"] is not None]
    spent = _summed(op["sum_ns"] for op in timed) if timed else None
    capable = [op for op in timed if op["tc_capable"] == "yes"]
    capable_ns, capable_tc = _summed(op["sum_ns"] for op in capable), _summed(op["tc_ns"] for op in capable)
    share = 100.0 * int(capable_tc) / int(capable_ns) if capable_ns and capable_tc is not None else None
    measured = spent is not None
    return {
        "layer": layer,
        "layer_class": step.get("layer_class"),
        "launches": _summed(op["launches"] for op in timed) if measured else None,
        "sum_ns": spent,
        "share_pct": 100.0 * int(spent) / kernel_ns if spent is not None and kernel_ns else None,
        **{f"{p}_ns": _summed(op["sum_ns"] for op in timed if op["pass"] == p) if measured else None for p in _PASSES},
        "tc_ns": _summed(op["tc_ns"] for op in timed) if measured else None,
        "unknown_ns": _summed(op["unknown_ns"] for op in timed) if measured else None,
        "capable_ns": capable_ns if measured else None,
        "capable_unknown_ns": _summed(op["unknown_ns"] for op in capable) if measured else None,
        "tc_capable_time_pct": share,
        "host_ns": _host(ops),
        "gemms": step.get("gemms"),
        "flops": step.get("flops"),
        "source": step.get("source") or (None if layer == NO_LAYER else _shared(op["source"] for op in ops)),
        "at_least": step.get("at_least"),
    }


def _host(ops: list[Row]) -> int | None:
    own = [op["host_ns"] for op in ops if op["host_ns"] is not None]
    return _summed(own) if own else None


def _summed(values: Iterable[Value]) -> int | None:
    found = list(values)
    return None if any(v is None for v in found) else sum(int(v) for v in found if v is not None)


def _shared(values: Iterable[Value]) -> Value:
    found = {v for v in values if v is not None}
    return found.pop() if len(found) == 1 else None
