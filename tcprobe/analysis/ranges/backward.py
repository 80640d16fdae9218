"""Tell of which op's forward pass a backward op is the gradient, by the number that PyTorch's autograd gives both.

The number is that of the next gradient to be recorded: the op that records it is the last started with that number
(torch.autograd.profiler.emit_nvtx). Each thread counts for itself, so where several threads ran forward ops of one
number, nothing tells whose gradient it is.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tcprobe.analysis.grouping import Codes, distinct_numbers, positions_in
from tcprobe.analysis.ranges.around import Nested
from tcprobe.schema.columns import IntArray, Table

_GRADIENT: Final = re.compile(r"Backward\d*$|AccumulateGrad$")
"""How PyTorch names the nodes of its graph of gradients: AddmmBackward0, torch::autograd::AccumulateGrad."""


def forward_of(nested: Nested) -> tuple[IntArray, IntArray]:
    """Return the backward ops around launches that have a number, and the forward op of each; rows of ranges.

    The forward op is -1 where none has that number, or ops of several threads have it.
    """
    ranges, nothing = nested.ranges, np.zeros(0, np.int64)
    numbers = ranges.numbers("sequence")
    if np.isnan(numbers).all():
        return nothing, nothing
    ops = ranges.names("kind").among("op") & ~np.isnan(numbers)
    gradient = _gradients(ranges)
    rows = nested.around(nested.inner)
    rows = rows[ops[rows] & gradient[rows]]
    wanted = numbers[rows].astype(np.int64)
    each = distinct_numbers(wanted)
    others = np.flatnonzero(ops & ~gradient)
    place = positions_in(numbers[others].astype(np.int64), each)
    return rows, _last_started(ranges, others[place >= 0], place[place >= 0], len(each))[positions_in(wanted, each)]


def _gradients(ranges: Table) -> NDArray[np.bool_]:
    names = ranges.names("name")
    told = np.array([_GRADIENT.search(name) is not None for name in names.names] + [False], np.bool_)
    return told[names.ids]


def _last_started(ranges: Table, rows: IntArray, group: Codes, count: int) -> IntArray:
    """Return the row of each group that starts last; -1 where it has none, or some of several threads."""
    starts, threads = ranges.numbers("start_ns")[rows], np.nan_to_num(ranges.numbers("thread")[rows], nan=-1.0)
    last, least, most = np.full(count, -1), np.full(count, np.inf), np.full(count, -np.inf)
    order = np.lexsort((rows, starts))
    last[group[order]] = rows[order]
    np.minimum.at(least, group, threads)
    np.maximum.at(most, group, threads)
    return np.where(least == most, last, -1)
