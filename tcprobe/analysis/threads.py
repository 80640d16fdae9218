"""Tell of which process a host thread is."""

from __future__ import annotations

import numpy as np

from tcprobe.analysis.grouping import positions_in
from tcprobe.schema.columns import FloatArray
from tcprobe.schema.profile import Profile


def processes_of(profile: Profile, threads: FloatArray) -> FloatArray:
    """Return the process of each thread; NaN where the source does not say."""
    table = profile.require("threads")
    order = np.argsort(table.numbers("thread"), kind="stable")
    numbers, process = table.numbers("thread")[order].astype(np.int64), table.numbers("process")[order]
    place = positions_in(np.nan_to_num(threads, nan=-1.0).astype(np.int64), numbers)
    return np.append(process.astype(np.float64), np.nan)[place]
