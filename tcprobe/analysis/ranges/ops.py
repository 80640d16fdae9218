"""Tell the steps of launches, and their op, layer and pass, by the ranges around them.

The products that the ops of PyTorch multiply on the host, of a trace in which no GPU ran anything.
"""

from __future__ import annotations

import json
import re
from functools import reduce
from typing import Final

import numpy as np

from tcprobe.analysis.context import Options
from tcprobe.analysis.ranges.nesting import MOST_LEVELS, Around, Nested, nest
from tcprobe.analysis.ranges.steps import with_steps
from tcprobe.gemm.ops import OpFamily, family_of
from tcprobe.gemm.record import parse_json_shapes, parse_object
from tcprobe.gemm.torch import convolves, form_of, multiplies
from tcprobe.grouping import count_by, distinct_numbers, distinct_rows, positions_in
from tcprobe.schema.columns import IntArray, Row, Table, Value
from tcprobe.schema.profile import Note, Profile
from tcprobe.schema.records import text_of
from tcprobe.schema.tables import GRAPH_OPS, LAUNCHES, OP_DETAILS

_PASS_OF: Final = {
    "forward": "forward", "dgrad": "dgrad", "wgrad": "wgrad", "backward": "other", "optimizer": "other",
}  # fmt: skip
_GRADIENTS: Final[dict[OpFamily | None, str]] = {"conv_dgrad": "dgrad", "conv_wgrad": "wgrad"}
_LINEAR: Final = "aten::linear"
_COLUMNS: Final = ("kind", "name", "op_type", "dtype", "input_shapes", "attributes", "called_from")
_GRADIENT: Final = re.compile(r"Backward\d*$|AccumulateGrad$")
"""How PyTorch names the nodes of its graph of gradients: AddmmBackward0, torch::autograd::AccumulateGrad."""
MOST_TEXT: Final = 1 << 26
"""Characters of all names: a range deep in others has the names of all of them. Large recordings have a million."""
NONE: Final = np.int32(-1)
ENDS: Final = np.int32(-2)
"""Of a layer: an op around it is no op of it."""


def with_ranges(profile: Profile, options: Options) -> tuple[Profile, Around | None]:
    """Return the profile with step marks and ops from its ranges, and the ranges around its launches; None: not known.

    A launch belongs to the step during which it was called, between two steps to the one before. Its op is the
    innermost range of an op around the call on its thread, its layer the path of the ranges of layers around that;
    in a layer and in no op of it, the layer stands for the op. An op in a backward op that shares its number with a
    forward op has the layer of that op. A launch whose call was not recorded, or that no range holds, has no op. Steps
    or ops that the source itself tells stay as they are, unless `options` name the ranges that are steps.

    Raises:
        UsageError: no range has a name such as `options` ask for.
    """
    profile = with_steps(profile, options.step_range)
    ranges, launches = profile.table("ranges"), profile.require("launches")
    if ranges is None or np.isnan(launches.numbers("launch_ns")).all():
        return profile, None
    nested = nest(ranges, launches)
    if nested.deep:
        message = f"{nested.deep:,} ranges lie in more than {MOST_LEVELS} others, which count in their place"
        profile = profile.with_notes(Note("ranges-deep", message, level="note"))
    backward, forward = _forward_of(nested)
    around = nested.kept(forward)
    del nested
    if not len(around.rows) or (launches.numbers("op_id") >= 0).any():
        return profile, around
    return _with_ops(profile, around, _Ops(around, backward, forward)), around


def _forward_of(nested: Nested) -> tuple[IntArray, IntArray]:
    """Return the backward ops around launches that have a number, and the forward op of each; rows of ranges.

    PyTorch's autograd gives a backward op the number of the forward op that recorded it: the last started with that
    number (torch.autograd.profiler.emit_nvtx). Each thread counts for itself, so the forward op is -1 where several
    threads ran ops of one number, or none has it.
    """
    ranges = nested.ranges
    numbers, names = ranges.numbers("sequence"), ranges.names("name")
    if np.isnan(numbers).all():
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    ops = ranges.names("kind").among("op") & ~np.isnan(numbers)
    gradient = np.array([_GRADIENT.search(name) is not None for name in names.names] + [False], np.bool_)[names.ids]
    rows = nested.around(nested.inner)
    rows = rows[ops[rows] & gradient[rows]]
    wanted = numbers[rows].astype(np.int64)
    each = distinct_numbers(wanted)
    others = np.flatnonzero(ops & ~gradient)
    group = positions_in(numbers[others].astype(np.int64), each)
    others, group = others[group >= 0], group[group >= 0]
    threads = np.nan_to_num(ranges.numbers("thread")[others], nan=-1.0)
    last, least, most = np.full(len(each), -1), np.full(len(each), np.inf), np.full(len(each), -np.inf)
    order = np.lexsort((others, ranges.numbers("start_ns")[others]))
    last[group[order]] = others[order]
    np.minimum.at(least, group, threads)
    np.maximum.at(most, group, threads)
    return rows, np.where(least == most, last, -1)[positions_in(wanted, each)]


def _with_ops(profile: Profile, around: Around, ops: _Ops) -> Profile:
    """Return the profile with `op_details` and the op of each launch."""
    inner = distinct_numbers(around.inner[around.inner >= 0])
    kinds, place = distinct_rows(*(numbers[inner] for numbers in ops.numbers))
    first = np.full(len(kinds[0]), len(around.rows))
    np.minimum.at(first, place, inner)
    index: dict[tuple[tuple[str, Value], ...], int] = {}
    detail = np.full(len(first), -1, np.int64)
    for number in np.argsort(first).tolist():
        if ops.room < 0:
            message = f"ops and layers have names of more than {MOST_TEXT:,} characters: only the first ones are told"
            profile = profile.with_notes(Note("ops-cut", message))
            break
        if (row := ops.row(*(int(numbers[number]) for numbers in kinds))) is not None:
            detail[number] = index.setdefault(tuple(row.items()), len(index))
    if not index:
        return profile
    of_range = np.full(len(around.rows) + 1, -1, np.int64)  # the last is that of no range
    of_range[inner] = detail[place]
    launches = profile.require("launches").with_columns(op_id=of_range[around.inner])
    return profile.with_tables(Table.from_rows(OP_DETAILS, [dict(row) for row in index]), launches)


class _Ops:
    """What ranges tell of the launches in them.

    Attributes:
        numbers: of each range the path of its layers, its op within the innermost of them, its phase, the layer that
            its backward op has of a forward op, the shapes of the product there, and whether a call of a linear layer
            is around its op; each as a number, negative where there is none.
        room: characters that names may still take; below 0, those that follow are not told.
    """

    def __init__(self, around: Around, backward: IntArray, forward: IntArray) -> None:
        self.room = MOST_TEXT
        columns = [around.names(name) for name in _COLUMNS]
        ids, alike = distinct_rows(*(names.ids for names in columns))
        self._texts = [names.names for names in columns]
        self._ids = ids
        layer, op, phase = (np.where(columns[0].among(kind), alike, NONE) for kind in ("layer", "op", "phase"))
        self._layers = around.paths(layer)
        self._lent: list[str] = []
        lent, origin = np.full(len(around.rows), NONE), np.full(len(around.rows), NONE)
        if len(backward):
            at = positions_in(forward, around.rows)
            (paths,), place = distinct_rows(np.where(at < 0, NONE, self._layers.of_range[at]))
            self._lent = [self._layer(path) for path in paths.tolist()]
            mine = positions_in(backward, around.rows)
            lent[mine], origin[mine] = place, np.where(at < 0, NONE, alike[at])
        ops = np.where(layer >= 0, ENDS, op)
        linear = np.where(op >= 0, columns[1].among(_LINEAR), NONE)
        linear[columns[1].among("aten::matmul")] = NONE  # which a linear layer calls for its product
        inside = np.where(op >= 0, around.nearest(linear)[around.parent], NONE)
        self.numbers = (self._layers.of_range, *map(around.nearest, (ops, phase, lent, origin, inside)))

    def _text(self, alike: int, column: int) -> str | None:
        number = int(self._ids[column][alike])
        return None if number < 0 else self._texts[column][number]

    def _layer(self, path: int) -> str:
        """Return the layers of a path, joined; empty where there is none."""
        names: list[str] = []
        while path >= 0 and self.room >= 0:
            names.append(str(self._text(int(self._layers.alike[path]), 1)))
            self.room -= len(names[-1])
            path = int(self._layers.outer[path])
        return reduce(_below, reversed(names), "")

    def row(self, path: int, op: int, phase: int, lent: int, origin: int, linear: int) -> Row | None:
        """Return the row of `op_details` for launches in such ranges; None where no op or layer is around them."""
        layer = self._layer(path) or (self._lent[lent] if lent >= 0 else "")
        pass_ = _PASS_OF.get(str(self._text(phase, 1)).lower()) if phase >= 0 else None
        if op < 0:
            return {"op": layer, "layer": layer, "pass": pass_} if layer else None
        name, dtype, shapes, attributes = str(self._text(op, 1)), *(self._text(op, column) for column in (3, 4, 5))
        kind = self._text(op, 2) or name.rpartition("/")[2]
        form = "forward" if linear > 0 and _is_product(kind) else None
        if lent >= 0:
            products = parse_json_shapes(shapes), parse_json_shapes(self._text(origin, 4) if origin >= 0 else None)
            form = form_of(kind, *products)
            pass_ = _GRADIENTS.get(family_of(kind), "other") if form is None else form.partition(",")[0]
        elif pass_ is None and (form is not None or convolves(kind)):
            pass_ = "forward"
        if form is not None:
            attributes = json.dumps({**parse_object(attributes), "form": form})
        self.room -= len(name) + len(shapes or "") + len(attributes or "")
        line = (self._text(origin, 6) if origin >= 0 else None) or self._text(op, 6)
        given: Row = {"op_type": kind, "dtype": dtype, "input_shapes": shapes}
        given = {**given, "attributes": attributes, "called_from": line}
        if lent >= 0 and form is not None:
            name = f"{pass_}/{name}"  # both gradients are made by ops of one name
        return {"op": _below(layer, name), **given, "layer": layer or None, "pass": pass_}


def _is_product(kind: str) -> bool:
    return kind in ("aten::mm", "aten::addmm")


def _below(outer: str, name: str) -> str:
    """Join a name to the path around it, unless it starts with that path already."""
    return name if not outer or name == outer or name.startswith(f"{outer}/") else f"{outer}/{name}"


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
    layer = text_of(detail["layer"])
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
