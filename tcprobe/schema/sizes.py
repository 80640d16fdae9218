"""Order of the rows of `bad_sizes` by cost, and the saving of one row."""

from __future__ import annotations

import numpy as np

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
