"""Build the `layers` table: sums over the ops of each layer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from tcprobe.analysis.ops.gemms import Gemms
from tcprobe.analysis.ops.table import Ops
from tcprobe.schema.columns import Row, Table, Value
from tcprobe.schema.tables import LAYERS

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
        "flops": _sum(row["flops"] for row in told) if told else None,
        "at_least": len(told) < len(rows) or any(row["at_least"] for row in told),
        "layer_class": _shared(row["layer_class"] for row in rows),
        "source": _shared(row["source"] for row in rows),
    }


_PASSES: Final = ("forward", "dgrad", "wgrad")


def _row(layer: str, ops: list[Row], step: Row, kernel_ns: float | None) -> Row:
    timed = [op for op in ops if op["sum_ns"] is not None]
    spent = _sum(op["sum_ns"] for op in timed) if timed else None
    capable = [op for op in timed if op["tc_capable"] == "yes"]
    capable_ns, capable_tc = _sum(op["sum_ns"] for op in capable), _sum(op["tc_ns"] for op in capable)
    share = 100.0 * int(capable_tc) / int(capable_ns) if capable_ns and capable_tc is not None else None
    measured = spent is not None
    return {
        "layer": layer,
        "layer_class": step.get("layer_class"),
        "launches": _sum(op["launches"] for op in timed) if measured else None,
        "sum_ns": spent,
        "share_pct": 100.0 * int(spent) / kernel_ns if spent is not None and kernel_ns else None,
        **{f"{p}_ns": _sum(op["sum_ns"] for op in timed if op["pass"] == p) if measured else None for p in _PASSES},
        "tc_ns": _sum(op["tc_ns"] for op in timed) if measured else None,
        "unknown_ns": _sum(op["unknown_ns"] for op in timed) if measured else None,
        "capable_ns": capable_ns if measured else None,
        "capable_unknown_ns": _sum(op["unknown_ns"] for op in capable) if measured else None,
        "tc_capable_time_pct": share,
        "host_ns": _host(ops),
        "gemms": step.get("gemms"),
        "flops": step.get("flops"),
        "source": step.get("source") or (None if layer == NO_LAYER else _shared(op["source"] for op in ops)),
        "at_least": step.get("at_least"),
    }


def _host(ops: list[Row]) -> int | None:
    own = [op["host_ns"] for op in ops if op["host_ns"] is not None]
    return _sum(own) if own else None


def _sum(values: Iterable[Value]) -> int | None:
    found = list(values)
    return None if any(v is None for v in found) else sum(int(v) for v in found if v is not None)


def _shared(values: Iterable[Value]) -> Value:
    found = {v for v in values if v is not None}
    return found.pop() if len(found) == 1 else None
