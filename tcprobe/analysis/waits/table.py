"""Sum what the host did while a GPU ran no kernel: rows that add up to all of that time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from tcprobe.analysis.waits.idle import KINDS, WORK, Gpu, names_of
from tcprobe.analysis.waits.moments import Moments
from tcprobe.grouping import Codes, count_by, distinct_rows, sum_by
from tcprobe.schema.columns import Names, Row, Table
from tcprobe.schema.profile import Profile
from tcprobe.schema.tables import WAITS

LEAST_NAMED: Final = 0.01  # of a GPU's idle time: what an event or a range below it tells is summed without its name


def build_waits(profile: Profile, gpus: list[tuple[Gpu, Moments]]) -> Table:
    """Return `waits`.

    Where the profiler reports longer steps than it recorded, what passes outside the recorded window is unknown.
    """
    ops, steps = profile.require("op_details").names("op"), profile.kernel_steps
    recorded, rows = profile.metadata.window.length_ns or 0, list[Row]()
    windows = {row["device"]: int(row["window_ns"] or 0) for row in profile.active_gpus}
    for gpu, moments in gpus:
        found = [*_rows(names_of(gpu, ops), moments)]
        if (beyond := windows.get(gpu.device, 0) - recorded) > 0:
            found.append({"host_work": "unknown", "short": False, "stretches": 1, "idle_ns": beyond})
        idle = sum(int(row["idle_ns"] or 0) for row in found)
        for row in found:
            spent = int(row["idle_ns"] or 0)
            row |= {
                "device": gpu.device,
                "share_pct": 100.0 * spent / idle,
                "step_ns": spent / steps if steps else None,
            }
        rows += sorted(found, key=_order)
    return Table.from_rows(WAITS, rows)


def _order(row: Row) -> tuple[int, str, str, str]:
    return -int(row["idle_ns"] or 0), str(row["host_work"]), str(row.get("host_op")), str(row.get("range"))


def _rows(names: Names, moments: Moments) -> Iterator[Row]:
    name, around = (np.append(names.ids, -1)[codes] for codes in (moments.name, moments.range))
    fixed = moments.work, moments.short.astype(np.int64)
    least = LEAST_NAMED * int(moments.ns.sum())
    # a range that tells by itself what is known is its own evidence
    around = np.where(moments.work == WORK["range"], -1, around)
    for _ in range(2):  # what several small ones leave without a range may be small with their name too
        keys, group = distinct_rows(*fixed, name, around)
        small = sum_by(group, moments.ns, len(keys[0])) < least
        around = np.where(small[group], -1, around)
        keys, group = distinct_rows(*fixed, name, around)
        small = sum_by(group, moments.ns, len(keys[0])) < least
        name = np.where(small[group], -1, name)
    (work, short, op, outer), group = distinct_rows(*fixed, name, around)
    total = sum_by(group, moments.ns, len(work))
    counts = _stretches(group, moments, len(work))
    for row in range(len(work)):
        yield {
            "host_work": KINDS[work[row]],
            "short": bool(short[row]),
            "host_op": None if op[row] < 0 else names.names[op[row]],
            "range": None if outer[row] < 0 else names.names[outer[row]],
            "stretches": int(counts[row]),
            "idle_ns": int(total[row]),
        }


def _stretches(group: Codes, moments: Moments, count: int) -> list[int]:
    (groups, _), _ = distinct_rows(group, moments.stretch)
    return [int(n) for n in count_by(groups, count)]
