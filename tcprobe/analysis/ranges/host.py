"""The products that the ops of PyTorch multiply on the host, of a trace in which no GPU ran anything."""

from __future__ import annotations

import json
import re
from typing import Final

import numpy as np

from tcprobe.analysis.options import Options
from tcprobe.analysis.ranges.ops import with_ranges
from tcprobe.gemm.torch import multiplies
from tcprobe.grouping import count_by
from tcprobe.schema.columns import IntArray, Row, Table
from tcprobe.schema.profile import Profile
from tcprobe.schema.tables import GRAPH_OPS, LAUNCHES

_CLASS: Final = re.compile(r"(?:.*/)?([^/]+)_\d+", re.DOTALL)
"""A module as PyTorch's profiler names it, by its class and a number; TorchScript's have names of their own."""


def with_host_products(profile: Profile) -> Profile:
    """Return the profile with its products as `graph_ops`, where ranges alone tell them; else as it is.

    Each innermost op that multiplies counts as if it had launched one kernel: so it has layer, pass and line as on a
    GPU. In a step it runs as often as in all marked steps over their number; without steps that is unknown.
    """
    ranges = profile.table("ranges")
    if ranges is None or len(profile.require("launches")) or len(profile.require("graph_ops")):
        return profile
    rows = _innermost(ranges)
    if not len(rows):
        return profile
    start, thread = ranges.numbers("start_ns")[rows], ranges.numbers("thread")[rows]
    columns = {name: np.full(len(rows), -1) for name in ("stream", "op_id", "config_id")}
    columns |= {
        "device": np.zeros(len(rows), np.int64),
        "start_ns": start,
        "duration_ns": np.zeros(len(rows), np.int64),
    }
    made = Table(
        LAUNCHES,
        {**columns, "kernel": ranges.names("name").take(rows), "launch_ns": start.astype(np.float64), "thread": thread},
    )
    seen, _ = with_ranges(profile.with_tables(made), Options())
    details, launches = seen.require("op_details"), seen.require("launches")
    marks, op = profile.require("step_marks"), launches.numbers("op_id")
    steps, inside = len(marks), op >= 0
    if steps:
        inside &= (start >= marks.numbers("start_ns").min()) & (start < marks.numbers("end_ns").max())
    calls = count_by(op[inside], len(details)) / steps if steps else np.full(len(details), np.nan)
    products = [_row(row, times) for row, times in zip(details.rows(), calls.tolist(), strict=True) if times != 0]
    return profile.with_tables(Table.from_rows(GRAPH_OPS, products)) if products else profile


def _innermost(ranges: Table) -> IntArray:
    """Return the rows of ops that multiply and in which no other op does, of each thread in order of time."""
    names = ranges.names("op_type")
    rows = np.flatnonzero(ranges.names("kind").among("op") & names.each(multiplies, False))
    start, spent = ranges.numbers("start_ns"), ranges.numbers("duration_ns")
    thread = ranges.numbers("thread")
    rows = rows[np.lexsort((-spent[rows], start[rows], thread[rows]))]
    after = np.append(rows[1:], -1)
    holds = (thread[after] == thread[rows]) & (start[after] < start[rows] + spent[rows]) & (after >= 0)
    innermost: IntArray = rows[~holds]
    return innermost


def _row(detail: Row, times: float) -> Row:
    layer = None if detail["layer"] is None else str(detail["layer"])
    kind = _CLASS.fullmatch(layer or "")
    return {
        "op": detail["op"],
        "op_type": detail["op_type"],
        "executes": "yes",
        "executes_basis": "profile",
        "pass": detail["pass"],
        "layer": layer,
        "layer_class": kind[1] if kind else None,
        "input_shapes": detail["input_shapes"],
        "input_dtypes": None if detail["dtype"] is None else json.dumps([detail["dtype"]]),
        "attributes": detail["attributes"],
        "calls_per_step": None if np.isnan(times) else times,
        "called_from": detail["called_from"],
    }
