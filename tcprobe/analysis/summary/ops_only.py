"""Summarise a source that times ops but no kernels: DLProf's detail report alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from tcprobe.analysis.summary.figures import SummaryInputs, figure, not_applicable
from tcprobe.schema.columns import Row

USING: Final = "ops_using_tc_time_pct"
NOT_USING: Final = "ops_eligible_not_using_time_pct"
UPPER: Final = (
    "an upper bound of the Tensor Core share: one such kernel marks the whole op, and times of ops include copies"
)
NOT_SAID: Final = "whether some eligible ops use Tensor Cores is not said: a range"


def op_time_rows(inputs: SummaryInputs) -> Iterator[Row]:
    """Yield the shares of the ops' GPU time with and without Tensor Cores, by the profiler's own verdicts.

    Nothing where any op has kernel times, which say it exactly, and where Tensor Cores do not apply.
    """
    table = inputs.ops.table if inputs.ops else None
    if table is None or not_applicable(inputs.context) or np.nansum(table.numbers("sum_ns")) > 0:
        return
    spent = np.nan_to_num(table.numbers("union_ns"))
    whole = float(spent.sum())
    if whole <= 0:
        return
    capable = table.names("tc_capable").among("yes")
    untold = capable & np.isnan(table.numbers("tc_ns"))
    using = untold & table.names("tc_blocker_kind").among("none")
    on, unclear, off = (
        100.0 * float(spent[rows].sum()) / whole for rows in (using, untold & ~using, capable & ~untold)
    )
    for name, share, remark in (
        (USING, on, UPPER),
        (NOT_USING, off, "as the profiler says; by time of ops, copies included"),
    ):
        if unclear > 0:
            yield figure(name, None, "reported", f"{remark}; {NOT_SAID}", (share, share + unclear))
        else:
            yield figure(name, share, "reported", remark)
