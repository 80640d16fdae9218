"""Tell which calls of the framework train: those within which most kernels are launched."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from tcprobe.analysis.ranges.nesting import latest
from tcprobe.grouping import count_by
from tcprobe.schema.columns import Table
from tcprobe.schema.waits import CALL

LEAST: Final = 0.05  # of the launches: calls of one name that hold fewer prepare a step, or look at its results
MOST: Final = 0.5  # of the launches; where calls of large names hold fewer, the step is called op by op


def training_calls(events: Table, launches: Table) -> NDArray[np.bool_]:
    """Return which rows of `host_events` are outermost calls that train.

    These are the calls of all names with a twentieth of the launches each; where they hold less than half of them
    together, as in a loop that calls op by op, every call that launches.
    """
    names = events.names("name")
    rows = np.flatnonzero(events.names("work").among(CALL))
    rows = rows[np.argsort(events.numbers("start_ns")[rows], kind="stable")]
    trains = np.zeros(len(events), np.bool_)
    times = launches.numbers("launch_ns").astype(np.float64)
    launched = times[~np.isnan(times)].astype(np.int64)
    if not len(rows) or not len(launched):
        return trains
    start = events.numbers("start_ns")[rows].astype(np.int64)
    end = start + events.numbers("duration_ns")[rows].astype(np.int64)
    held = latest(start, end, launched, launched)
    of_name = count_by(names.ids[rows][held[held >= 0]], len(names.names))
    large = np.where(of_name >= LEAST * len(launched), of_name, 0)
    chosen = large if large.sum() >= MOST * len(launched) else of_name
    trains[rows] = chosen[names.ids[rows]] > 0
    return trains
