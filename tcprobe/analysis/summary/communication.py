"""Summarise the kernels that move data between GPUs (NCCL, NVSHMEM): their time, and how much of it nothing hides."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from tcprobe.analysis.grouping import union_by
from tcprobe.analysis.kernels.launches import LaunchGroups
from tcprobe.analysis.kernels.names import COMMUNICATES
from tcprobe.analysis.kernels.verdict import by_name
from tcprobe.analysis.summary.figures import SummaryInputs, Totals, figure
from tcprobe.schema.columns import Names, Row


def communication_rows(inputs: SummaryInputs, totals: Totals | None) -> Iterator[Row]:
    """Yield the figures of communication; none where no kernel of the window communicates."""
    kernels = inputs.kernels
    if totals is None or not len(kernels) or totals.kernel_ns <= 0:
        return
    mine = _communicating(kernels.names("kernel"))
    spent = float(kernels.numbers("sum_ns")[mine].sum())
    if not spent > 0:
        return
    yield figure("communication_kernel_time_pct", 100.0 * spent / totals.kernel_ns, "name")
    yield figure("communication_kernel_time_ns", spent, "name")
    if inputs.launched is None:
        yield figure("communication_exposed_ns", None, None, "the source does not say when kernels ran")
    else:
        yield figure("communication_exposed_ns", _exposed_ns(inputs.launched.groups), "name")


def _communicating(names: Names) -> NDArray[np.bool_]:
    told = [by_name(name).rule in COMMUNICATES for name in names.names]
    return np.array([*told, False], np.bool_)[names.ids]


def _exposed_ns(groups: LaunchGroups) -> float:
    """Return how long counted communication ran while no other kernel did on its GPU, summed over GPUs."""
    names = Names(groups.kernel.astype(np.int32), groups.names)
    moves = _communicating(names)
    exposed = 0
    for device in np.unique(groups.device[moves & groups.counted]).tolist():
        here = groups.device == device
        counts = np.where(here & (~moves | groups.counted), np.where(moves, 1, 0), -1).astype(np.int32)
        which = counts[groups.of_launch]
        rows = np.flatnonzero(which >= 0)
        start, length = (groups.launches.numbers(name)[rows] for name in ("start_ns", "duration_ns"))
        others = which[rows] == 0
        together = union_by(np.zeros(len(rows), np.int32), start, length, 1)
        alone = union_by(np.zeros(int(others.sum()), np.int32), start[others], length[others], 1)
        exposed += int(together[0] - alone[0])
    return float(exposed)
