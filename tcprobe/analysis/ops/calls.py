"""Count how often the ops that ranges name ran in a step: one name is that of many calls (``aten::mm``)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tcprobe.analysis.grouping import count_by, distinct_rows
from tcprobe.analysis.iterations import counted
from tcprobe.schema.columns import IntArray, Table
from tcprobe.schema.profile import Profile


def calls_per_step(profile: Profile, gpus: Mapping[int, int]) -> dict[int, float | None]:
    """Return the calls in a step of each op that is named by a range; None where no steps are known.

    A call is a range in which counted kernels were launched; one whose launches were not recorded is none. Ops that
    the source names by other means are left out.

    Args:
        profile: with its window, `launches`, `op_details` and `ranges`.
        gpus: row of `op_details` -> number of GPUs that each run it, 1 where there is none: a step is one GPU's.
    """
    details = profile.require("op_details")
    ranges = profile.require("ranges")
    ranges = ranges.take(ranges.names("kind").among("op"))
    if not len(ranges) or not len(details):
        return {}
    names, steps = ranges.names("name"), profile.counted_steps
    known = {name: number for number, name in enumerate(names.names)}
    named = np.array([_range_of(op, known) for op in details.names("op").tolist()], np.int64)
    calls = _calls(profile, ranges, named).tolist()
    rows = np.flatnonzero(named >= 0).tolist()
    return {row: calls[row] / steps / gpus.get(row, 1) if steps else None for row in rows if calls[row]}


def _range_of(op: str | None, known: Mapping[str, int]) -> int:
    """Return the number of the range's name that an op bears, below the path of its layers; -1 where there is none."""
    rest = op or ""
    while rest not in known and "/" in rest:
        rest = rest.partition("/")[2]
    return known.get(rest, -1)


def _calls(profile: Profile, ranges: Table, named: IntArray) -> IntArray:
    """Return the number of ranges of each op that launched counted kernels: of its name, the last begun before."""
    launches = profile.require("launches")
    called, op = launches.numbers("launch_ns"), launches.numbers("op_id")
    inside = counted(profile.metadata.window, launches.numbers("iteration"))
    mine = np.flatnonzero(inside & (op >= 0) & (op < len(named)) & ~np.isnan(called))
    mine = mine[named[op[mine]] >= 0]
    times = np.concatenate([ranges.numbers("start_ns"), called[mine]])
    threads = np.concatenate([ranges.numbers("thread"), launches.numbers("thread")[mine]])
    names = np.concatenate([ranges.names("name").ids, named[op[mine]]])
    _, alike = distinct_rows(np.nan_to_num(threads, nan=-1.0).astype(np.int64), names)
    order = np.lexsort((np.arange(len(times)) >= len(ranges), times, alike))  # a range before what it launches
    begun = np.maximum.accumulate(np.where(order < len(ranges), np.arange(len(order)), -1))
    last = np.full(len(times), -1)
    last[order] = np.where(begun < 0, -1, order[begun])
    found = last[len(ranges) :]
    held = (found >= 0) & (alike[found] == alike[len(ranges) :])
    (ops, _), _ = distinct_rows(op[mine][held], found[held])
    return count_by(ops, len(named))
