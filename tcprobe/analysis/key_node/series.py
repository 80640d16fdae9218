"""All ops and ranges that may mark steps: how often each ran and when it ended; and how many steps there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from tcprobe.analysis.host import LEAST_STEPS
from tcprobe.schema.columns import FloatArray, Table
from tcprobe.schema.key_nodes import Fired, StepsBasis
from tcprobe.schema.profile import Profile

FUNCTION: Final = "__"
"""What the name of a traced function begins with; it ends in a number that differs from run to run."""
WARM_UP: Final = 0.2  # of the steps, the first; at least one
UNEVEN: Final = 0.5  # coefficient of variation of the gaps: exponential ones, which come at random, have 1
MOST: Final = 0.6
"""Share of the repeated ops whose calls are a multiple of the number of steps. Those that a step calls are most of what
a training repeats; those of epochs and validation are few beside them."""
AGREE: Final = 0.25
"""Share of the busy ops that must have run exactly so often. With fewer some of them must come evenly: the layers of a
single step repeat as well, and few ops have their number."""
REPEATED: Final = 0.5
"""Share of the busy ops that must repeat, which set-up does not: else few steps were recorded, and what repeats is
called several times in one."""
OFTEN: Final = 100
"""Calls of what repeats though few ops do: a loop of few ranges, and a set-up of many that came once."""
_Op = tuple[str, str | None]


class Series(Struct, frozen=True):
    """One op or range over time."""

    fired: Fired  # what it is, and how often it ran
    # host time at which each of its calls ended, or launched its last kernel, in order; None where unknown
    ends: FloatArray | None = None
    # whether the source counted its calls; False if each kernel that it launched is taken for one
    counted: bool = True

    @property
    def gap_cv(self) -> float | None:
        """Return how unevenly it comes, as `gap_cv` says; None where no time tells."""
        return None if self.ends is None else gap_cv(self.ends)


class Steps(Struct, frozen=True):
    """The steps of a profile."""

    count: int  # how many there are
    basis: StepsBasis  # what says so
    # host times at which they began, in order, and the last one's end; None where no mark says so
    starts: FloatArray | None = None


def warm(values: FloatArray) -> FloatArray:
    """Return what follows the warm-up."""
    return values[max(1, round(len(values) * WARM_UP)) :]


def gap_cv(ends: FloatArray) -> float | None:
    """Return standard deviation over mean of the gaps after the warm-up; None of fewer than two."""
    gaps = warm(np.diff(ends))
    return float(gaps.std() / gaps.mean()) if len(gaps) > 1 and gaps.mean() > 0 else None


def series_of(profile: Profile) -> list[Series]:
    """Return every op and range that ran, in the order of the profile."""
    return [*_ops(profile), *_ranges(profile.require("ranges"))]


def busy(series: Sequence[Series]) -> list[Series]:
    """Return what took GPU time and was counted; all that was counted where nothing did, or no time is known."""
    counted = [one for one in series if one.counted] or list(series)
    return [one for one in counted if one.fired.gpu_ns] or counted


def find_steps(profile: Profile, series: Sequence[Series]) -> Steps | None:
    """Return the steps; None where nothing tells of three or more.

    Marks and the probe's count hold only where something ran so often: a profile may mark calls that are no steps,
    and the probe counts steps that were not recorded.
    """
    weighed = busy(series)
    counts = Counter(one.fired.calls for one in weighed)
    starts, probed = _marked(profile), len(profile.require("steps"))
    marked = len(starts) - 1
    if marked >= LEAST_STEPS and any(counts[marked + more] for more in (-1, 0, 1)):
        return Steps(marked, "marks", starts)
    if probed >= LEAST_STEPS and counts[probed]:
        return Steps(probed, "probe")
    called = _by_calls(counts)
    exact = [one for one in weighed if one.fired.calls == called]
    even = any(cv is not None and cv <= UNEVEN for cv in (one.gap_cv for one in exact))
    return Steps(called, "calls") if called and (even or len(exact) >= AGREE * len(weighed)) else None


def _ops(profile: Profile) -> Iterator[Series]:
    """Yield the ops of the framework; of some sources also XLA's instructions are known, by types in lower case."""
    launched, gpu_ns = _launched(profile), _gpu_times(profile)
    any_gpu = any(gpu_ns.values())
    host, shows_xla = profile.require("host_ops"), "shows_xla" in profile.traits
    seen: set[_Op] = set()
    columns = [host.values(name) for name in ("op", "op_type", "calls", "profiler_id")]
    for op, op_type, calls, op_id in zip(*columns, strict=True):
        key = str(op), str(op_type)
        seen.add(key)
        if calls and not key[0].startswith(FUNCTION) and not (shows_xla and key[1][:1].islower()):
            time = gpu_ns[key] if any_gpu else None
            fired = Fired("op", key[0], int(calls), str(op_id) if op_id else None, key[1], gpu_ns=time)
            yield Series(fired, _instances(launched.get(key), int(calls)))
    for (name, kind), ends in launched.items():
        if (name, kind) not in seen:
            time = gpu_ns[name, kind] if any_gpu else None
            yield Series(Fired("op", name, len(ends), op_type=kind, gpu_ns=time), ends, counted=False)


def _instances(launched: FloatArray | None, calls: int) -> FloatArray | None:
    """Return the time of the last launch of each call; None if the launches are no multiple of the calls."""
    if launched is None or len(launched) % calls:
        return None
    each = len(launched) // calls
    return launched[each - 1 :: each]


def _launched(profile: Profile) -> dict[_Op, FloatArray]:
    """Return the host times of the launches of each op on its first GPU, in order; none where one is unknown.

    Instructions that XLA made are left out: other profilers see the whole cluster alone.
    """
    launches, ops = profile.require("launches"), profile.require("op_details")
    ends: dict[_Op, FloatArray] = {}
    if not len(launches) or not len(ops):
        return ends
    op, device, at = (launches.numbers(name) for name in ("op_id", "device", "launch_ns"))
    order = np.lexsort((at, device, op))
    bounds = np.searchsorted(op[order], np.arange(len(ops) + 1))
    names = zip(*(ops.names(column).tolist() for column in ("op", "op_type", "hlo_op")), strict=True)
    for row, (name, op_type, hlo_op) in enumerate(names):
        rows = order[bounds[row] : bounds[row + 1]]
        times = at[rows[device[rows] == device[rows[0]]]] if len(rows) else np.zeros(0)
        if name and hlo_op is None and len(times) and not np.isnan(times).any():
            before = ends.get((name, op_type))
            ends[name, op_type] = times if before is None else np.sort(np.concatenate([before, times]))
    return ends


def _gpu_times(profile: Profile) -> Counter[_Op]:
    """Return the kernel time of each op."""
    ops, launches = profile.require("ops"), profile.require("launches")
    times = ops.numbers("union_ns")
    if not len(ops):
        ops = profile.require("op_details")
        held = launches.numbers("op_id") >= 0
        weights = launches.numbers("duration_ns")[held]
        times = np.bincount(launches.numbers("op_id")[held], weights=weights, minlength=len(ops))[: len(ops)]
    spent: Counter[_Op] = Counter()
    for op, op_type, time in zip(ops.names("op").tolist(), ops.names("op_type").tolist(), times.tolist(), strict=True):
        spent[str(op), op_type] += int(time) if time == time else 0
    return spent


def _ranges(ranges: Table) -> Iterator[Series]:
    """Yield the ranges of each domain and name."""
    if not len(ranges):
        return
    domain, name, op_type = (ranges.names(c) for c in ("domain", "name", "op_type"))
    ends = ranges.numbers("start_ns") + ranges.numbers("duration_ns")
    order = np.lexsort((ends, name.ids, domain.ids))
    new = np.flatnonzero(np.diff(domain.ids[order]) | np.diff(name.ids[order])) + 1
    for rows in np.split(order, new):
        first = int(rows[0])
        fired = Fired("range", str(name[first]), len(rows), op_type=op_type[first], domain=domain[first])
        yield Series(fired, ends[rows].astype(np.float64))


def _marked(profile: Profile) -> FloatArray:
    """Return when the marked steps began, and when the last one ended; only that where none is marked."""
    marks = profile.require("step_marks")
    starts, ends = marks.numbers("start_ns"), marks.numbers("end_ns")
    if not len(marks):
        ranges = profile.require("ranges")
        ranges = ranges.take(ranges.names("kind").among("step"))
        starts = ranges.numbers("start_ns")
        ends = starts + ranges.numbers("duration_ns")
    last = max(int(ends.max()), int(starts.max()) + 1) if len(starts) else 0
    return np.append(np.unique(starts), last).astype(np.float64)


def _by_calls(counts: Counter[int]) -> int | None:
    """Return the largest number of calls of which those of most ops are a multiple.

    That of an epoch is one as well, and smaller; that of ops called several times in a step is of too few.
    """
    repeated = {calls: ops for calls, ops in counts.items() if calls >= LEAST_STEPS}
    if sum(repeated.values()) < REPEATED * sum(counts.values()):
        repeated = {calls: ops for calls, ops in repeated.items() if calls >= OFTEN}
    total = sum(repeated.values())
    for steps in sorted(repeated, reverse=True):
        if sum(ops for calls, ops in repeated.items() if not calls % steps) >= MOST * total:
            return steps
    return None
