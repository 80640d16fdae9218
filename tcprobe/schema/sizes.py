"""Order of the rows of `bad_sizes` by cost, the saving of one row, and which rows of `gemms` are lower bounds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tcprobe.schema.columns import Row, Table
from tcprobe.schema.finding import Range


def worst_first(bad_sizes: Table) -> Table:
    """Return the rows of `bad_sizes`, costliest first: by kernel time, then by saving, then by FLOPs."""
    time, flops = (np.nan_to_num(bad_sizes.numbers(c), nan=-1.0) for c in ("kernel_ns", "flops_pct"))
    saved = np.nan_to_num(bad_sizes.numbers("saving_ns"))
    return bad_sizes.take(np.lexsort((-flops, -saved, -time)))


def saving_of(row: Row) -> Range | None:
    """Return what the next size saves, in ns per step, from a row of `bad_sizes`; None if unknown."""
    low, likely, high = (row[f"saving_{end}ns"] for end in ("low_", "", "high_"))
    return None if low is None or likely is None or high is None else Range(float(low), float(likely), float(high))


def is_bounded(row: Row) -> bool:
    """Return whether a row of `gemms` may run more often in a step than it says, or nobody knows how often."""
    return row["calls_per_step"] is None or row["at_least"] is True


def bounded_rows(gemms: Table) -> NDArray[np.bool_]:
    """Return which rows of `gemms` are such."""
    found: NDArray[np.bool_] = np.isnan(gemms.numbers("calls_per_step")) | (gemms.numbers("at_least") == 1)
    return found
