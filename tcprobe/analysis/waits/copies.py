"""Sum the copies and sets of each kind: device time, bytes, rate, and the time in which no kernel hides them."""

from __future__ import annotations

import numpy as np

from tcprobe.analysis.waits.idle import Gpu
from tcprobe.grouping import count_by, distinct_rows, merged, sum_by
from tcprobe.schema.columns import IntArray, Row, Table
from tcprobe.schema.profile import Profile
from tcprobe.schema.tables import COPIES


def build_copies(profile: Profile, gpus: list[Gpu]) -> Table:
    """Return `copies`: of copies and sets that begin within the window, by GPU and kind, the longest first."""
    window, steps = profile.metadata.window, profile.kernel_steps
    low, high = window.start_ns or 0, window.end_ns or 0
    memory = profile.require("memory_ops")
    start = memory.numbers("start_ns").astype(np.int64)
    memory = memory.take((start >= low) & (start < high))
    start, length = (memory.numbers(name).astype(np.int64) for name in ("start_ns", "duration_ns"))
    kinds, size = memory.names("kind"), memory.numbers("size_bytes").astype(np.float64)
    (device, kind), group = distinct_rows(memory.numbers("device"), kinds.ids)
    calls, total = count_by(group, len(device)), sum_by(group, length, len(device))
    rows = list[Row]()
    for place in range(len(device)):
        mine = group == place
        ns, sizes = int(total[place]), size[mine]
        moved = None if np.isnan(sizes).any() else int(sizes.sum())
        gpu = next((one for one in gpus if one.device == device[place]), None)
        alone = None if gpu is None else _alone(gpu, start[mine], (start + length)[mine])
        row: Row = {"device": int(device[place]), "kind": kinds.names[kind[place]], "calls": int(calls[place])}
        rate = moved / ns * 1e9 if moved is not None and ns else None
        row |= {"size_bytes": moved, "sum_ns": ns, "bytes_per_s": rate}
        row |= {"idle_ns": alone, "step_ns": alone / steps if alone is not None and steps else None}
        rows.append(row)
    return Table.from_rows(COPIES, sorted(rows, key=lambda row: (-int(row["sum_ns"] or 0), str(row["kind"]))))


def _alone(gpu: Gpu, start: IntArray, end: IntArray) -> int:
    """Return how long at least one of these copies ran while the GPU ran no kernel."""
    spans = merged(start, end)  # copies side by side are one
    idle = np.append(0, np.cumsum(gpu.idle.length_ns))

    def until(times: IntArray) -> IntArray:
        """Return how long the GPU has run no kernel by these times."""
        place = np.searchsorted(gpu.idle.start_ns, times, side="right")
        last = np.maximum(place - 1, 0)
        beyond = np.where(place > 0, np.maximum(np.append(gpu.idle.end_ns, 0)[last] - times, 0), 0)
        waited: IntArray = idle[place] - np.minimum(beyond, np.append(gpu.idle.length_ns, 0)[last])
        return waited

    return int((until(spans[1]) - until(spans[0])).sum())
