"""Split the time of an op whose shapes change from call to call: each step's kernels are of the shapes of that step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from tcprobe.analysis.kernels.launches import Launched
from tcprobe.grouping import distinct_rows, sum_by


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
