"""Find what launches repeat, per GPU and process, and say of each unit whether it is a step.

A unit is as often a layer, a token, a micro-batch or an iteration of a solver: it is a step only where marks hold one
unit each, or where it holds one update by an optimizer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Literal

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tcprobe.analysis.host import LEAST_STEPS, processes_of
from tcprobe.analysis.kernels.kinds import kind_of
from tcprobe.analysis.ranges.steps import mark_steps
from tcprobe.analysis.repeats import LEAST_REPEATS, Repeats, find_repeats
from tcprobe.grouping import distinct_numbers, distinct_rows, ranks, rows_by_group
from tcprobe.schema.columns import FloatArray, IntArray, Table
from tcprobe.schema.profile import Profile
from tcprobe.schema.tables import UNITS

ONE_EACH: Final = 0.8  # of the steps that must hold one unit: some are irregular
APART: Final = 0.75  # of a unit, at least, in which nothing updates: two steps in one unit update twice
UPDATE: Final = "update by an optimizer"
"""Name of such steps."""


class Found(Struct, frozen=True):
    """A unit of the launches of one GPU and process."""

    repeats: Repeats
    rows: IntArray  # rows of `launches`, in order
    process: float  # NaN where unknown
    is_step: Literal["yes", "no", "unknown"]
    basis: Literal["marks", "updates"] | None  # what says so
    update: IntArray  # indices of the launches after an update, where one is in each unit


def find_units(profile: Profile) -> list[Found]:
    """Return what repeats; of the GPU and process with the most launches first, there what covers most of them."""
    launches = profile.require("launches")
    if not len(launches) or "serialises_kernels" in profile.traits:
        return []
    kernel, configs = launches.names("kernel"), launches.numbers("config_id").astype(np.int64)
    grids = profile.require("launch_configs").names("grid")
    grid = np.append(grids.ids, -1)[np.where(configs < len(grids.ids), configs, -1)]
    # by rank of the name: an id depends on the order of rows
    places = [np.append(ranks(names), -1) for names in (kernel.names, grids.names)]
    code = distinct_rows(places[0][kernel.ids], places[1][grid])[1].astype(np.int64)
    updates = np.array([kind_of(name) == "optimizer" for name in kernel.names] + [False], np.bool_)[kernel.ids]
    device = launches.numbers("device")
    return [
        one
        for rows, process in sorted(
            _series(profile, code), key=lambda each: (-len(each[0]), int(device[each[0][0]]), each[1])
        )
        for one in _of_series(code[rows], rows, process, launches, updates[rows])
    ]


def _series(profile: Profile, code: IntArray) -> Iterator[tuple[IntArray, float]]:
    """Yield the launches of each GPU and process, as the host made them; as they ran, where it is not known of all."""
    launches = profile.require("launches")
    process, device = processes_of(profile, launches.numbers("thread")), launches.numbers("device").astype(np.int64)
    for one in distinct_numbers(device).tolist():
        mine = device == one
        known = process[mine & ~np.isnan(process)]
        if len(known) and (known == known[0]).all():
            process[mine] = known[0]  # what was called before the capture began has no thread
    (_, owners), group = distinct_rows(device, np.nan_to_num(process, nan=-1.0).astype(np.int64))
    begun, called = launches.numbers("start_ns"), launches.numbers("launch_ns")
    for rows, owner in zip(rows_by_group(group, len(owners)), owners.tolist(), strict=True):
        made = begun[rows] if np.isnan(called[rows]).any() else called[rows]
        yield rows[np.lexsort((code[rows], begun[rows], made))], np.nan if owner < 0 else float(owner)


def _of_series(
    code: IntArray, rows: IntArray, process: float, launches: Table, updates: NDArray[np.bool_]
) -> Iterator[Found]:
    step = launches.numbers("iteration")[rows]
    marked = len(distinct_numbers(step[~np.isnan(step)].astype(np.int64)))
    for repeats in find_repeats(code, LEAST_STEPS if marked >= LEAST_STEPS else LEAST_REPEATS):
        after = _after_updates(repeats, updates)
        if (by_marks := _by_marks(repeats, step)) is not None:
            yield Found(repeats, rows, process, "yes" if by_marks else "no", "marks", after)
        elif len(after):
            yield Found(repeats, rows, process, "yes", "updates", after)
        else:
            none = updates.any() and not updates[int(repeats.starts[0]) : repeats.end].any()
            yield Found(repeats, rows, process, "no" if none else "unknown", "updates" if none else None, after)


def _by_marks(repeats: Repeats, step: FloatArray) -> bool | None:
    """Return whether steps that are marked hold one unit each; None where too few are marked to tell."""
    inside = step[int(repeats.starts[0]) : repeats.end]
    steps = len(distinct_numbers(inside[~np.isnan(inside)].astype(np.int64)))
    if not steps:
        return None
    held = step[repeats.starts]
    holding = len(distinct_numbers(held[~np.isnan(held)].astype(np.int64)))
    if steps >= LEAST_STEPS and holding >= ONE_EACH * steps and len(held) * ONE_EACH <= holding:
        return True
    return False if len(held) >= 2 * steps or steps >= 2 * len(held) else None


def _after_updates(repeats: Repeats, updates: NDArray[np.bool_]) -> IntArray:
    """Return which launches follow an update, where each unit holds one; none where that is not so.

    An update is one or more launches that lie close.
    """
    end = repeats.end
    at = np.flatnonzero(updates[:end])
    last = at[np.append(np.diff(at) > APART * repeats.period, True)[: len(at)]] if len(at) else at
    per_unit = np.diff(np.searchsorted(last, np.append(repeats.starts, end)))
    regular = np.diff(np.append(repeats.starts, end)) == repeats.period
    one: IntArray = last + 1
    return one if len(at) and (per_unit[regular] == 1).mean() >= ONE_EACH else np.zeros(0, np.int64)


def with_updates(profile: Profile, found: list[Found]) -> Profile:
    """Return the profile with steps that end with an update, where nothing marks any and host times are known.

    Steps of several processes need not run together: then none are marked. What was launched before the first whole
    step belongs to none.
    """
    launches = profile.require("launches")
    if not found or not np.isnan(launches.numbers("iteration")).all():
        return profile
    first = next((one for one in found if one.is_step == "yes"), None)
    called = launches.numbers("launch_ns")
    if first is None or np.isnan(called[first.rows]).any() or len({one.process for one in found}) > 1:
        return profile
    begins, begin = first.update[first.update < len(first.rows)], int(first.repeats.starts[0])
    if begins[0] - first.repeats.period >= begin:
        begins = np.append(begins[0] - first.repeats.period, begins)
    starts = called[first.rows[begins]].astype(np.int64)
    ends = np.append(starts[1:], int(called[first.rows[-1]]))
    return mark_steps(profile, list(range(len(starts))), [UPDATE] * len(starts), starts, ends)


def unit_table(profile: Profile, found: list[Found]) -> Table:
    """Return the table `units`."""
    launches = profile.require("launches")
    begun, spent = launches.numbers("start_ns"), launches.numbers("duration_ns")
    rows: list[dict[str, Any]] = []
    for one in found:
        period, starts = one.repeats.period, one.repeats.starts
        inside = one.rows[int(starts[0]) : one.repeats.end]
        regular = one.rows[(starts[:, None] + np.arange(period)).ravel()] if len(starts) else inside
        lengths = np.diff(begun[one.rows[starts]])[np.diff(starts) == period]
        rows.append(
            {
                "device": int(launches.numbers("device")[one.rows[0]]),
                "process": None if np.isnan(one.process) else int(one.process),
                "kernels": period,
                "repeats": len(starts),
                "start_ns": int(begun[inside].min()),
                "end_ns": int((begun[inside] + spent[inside]).max()),
                "unit_ns": float(np.median(lengths)) if len(lengths) else None,
                "kernel_ns": float(spent[regular].sum() / len(starts)),
                "share_pct": 100.0 * len(regular) / len(one.rows),
                "is_step": one.is_step,
                "basis": one.basis,
            }
        )
    return Table.from_rows(UNITS, rows)
