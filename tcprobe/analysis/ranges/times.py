"""Sum how long NVTX ranges last on the host, by domain and name: what a recording without kernels tells too."""

from __future__ import annotations

import numpy as np

from tcprobe.grouping import count_by, distinct_rows, sum_by
from tcprobe.schema.columns import Names, Table
from tcprobe.schema.tables import RANGE_TIMES


def range_times(ranges: Table) -> Table | None:
    """Return `range_times`, the longest sum first; None without a range."""
    if not len(ranges):
        return None
    domain, name, spent = ranges.names("domain"), ranges.names("name"), ranges.numbers("duration_ns").astype(np.int64)
    (domains, names), group = distinct_rows(domain.ids, name.ids)
    count = len(names)
    calls, total = count_by(group, count), sum_by(group, spent, count)
    least, most = np.full(count, np.iinfo(np.int64).max), np.zeros(count, np.int64)
    np.minimum.at(least, group, spent)
    np.maximum.at(most, group, spent)
    columns = {
        "domain": Names(domains.astype(np.int32), domain.names),
        "name": Names(names.astype(np.int32), name.names),
        "calls": calls,
        "sum_ns": total,
        "mean_ns": total / calls,
        "min_ns": least,
        "max_ns": most,
    }
    return Table(RANGE_TIMES, columns).take(np.lexsort((names, -total)))
