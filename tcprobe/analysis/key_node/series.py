"""All ops and ranges of a profile that may mark steps: how often each ran and, where times are known, when it ended."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from tcprobe.schema.columns import FloatArray, Table
from tcprobe.schema.key_nodes.found import Fired
from tcprobe.schema.profile import Profile

FUNCTION: Final = "__"
"""What the name of a traced function begins with; it ends in a number that differs from run to run."""
WARM_UP: Final = 0.2  # of the steps, the first; at least one
UNEVEN: Final = 0.5  # coefficient of variation of the gaps: exponential ones, which come at random, have 1
_Op = tuple[str, str | None]


@dataclass(frozen=True, slots=True)
class Series:
    """One op or range over time.

    Attributes:
        fired: what it is, and how often it ran.
        ends: host time at which each of its calls ended, or launched its last kernel, in order; None where unknown.
        counted: whether the source counted its calls; False if each kernel that it launched is taken for one.
    """

    fired: Fired
    ends: FloatArray | None = None
    counted: bool = True

    @property
    def gap_cv(self) -> float | None:
        """Return how unevenly it comes, as `gap_cv` says; None where no time tells."""
        return None if self.ends is None else gap_cv(self.ends)


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


def _ops(profile: Profile) -> Iterator[Series]:
    """Yield the ops of the framework; of an XSpace also XLA's instructions are known, by types in lower case."""
    launched, gpu_ns = _launched(profile), _gpu_times(profile)
    host, by_xla = profile.require("host_ops"), profile.metadata.format == "xplane"
    seen: set[_Op] = set()
    columns = [host.values(name) for name in ("op", "op_type", "calls", "profiler_id")]
    for op, op_type, calls, op_id in zip(*columns, strict=True):
        key: _Op = (str(op), str(op_type))
        seen.add(key)
        if calls and not key[0].startswith(FUNCTION) and not (by_xla and str(op_type)[:1].islower()):
            time = None if gpu_ns is None else gpu_ns.get(key, 0)
            fired = Fired("op", key[0], int(calls), str(op_id) if op_id else None, key[1], gpu_ns=time)
            yield Series(fired, _instances(launched.get(key), int(calls)))
    for key, ends in launched.items():
        if key not in seen:
            time = None if gpu_ns is None else gpu_ns.get(key, 0)
            yield Series(Fired("op", key[0], len(ends), op_type=key[1], gpu_ns=time), ends, counted=False)


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
    found: dict[_Op, FloatArray] = {}
    if not len(launches) or not len(ops):
        return found
    op, device, at = (launches.numbers(name) for name in ("op_id", "device", "launch_ns"))
    order = np.lexsort((at, device, op))
    bounds = np.searchsorted(op[order], np.arange(len(ops) + 1))
    names = zip(*(ops.names(column).tolist() for column in ("op", "op_type", "hlo_op")), strict=True)
    for row, (name, op_type, hlo_op) in enumerate(names):
        rows = order[bounds[row] : bounds[row + 1]]
        times = at[rows[device[rows] == device[rows[0]]]] if len(rows) else np.zeros(0)
        if name and hlo_op is None and len(times) and not np.isnan(times).any():
            known = found.get((name, op_type))
            found[name, op_type] = times if known is None else np.sort(np.concatenate([known, times]))
    return found


def _gpu_times(profile: Profile) -> dict[_Op, int] | None:
    """Return the kernel time of each op; None where the profile tells of none."""
    found: dict[_Op, int] = defaultdict(int)
    ops, launches, details = (profile.require(name) for name in ("ops", "launches", "op_details"))
    if len(ops):
        times = ops.numbers("union_ns").tolist()
        names = zip(ops.names("op").tolist(), ops.names("op_type").tolist(), times, strict=True)
    else:
        held = launches.numbers("op_id") >= 0
        weights = launches.numbers("duration_ns")[held]
        sums = np.bincount(launches.numbers("op_id")[held], weights=weights, minlength=len(details)).tolist()
        names = zip(details.names("op").tolist(), details.names("op_type").tolist(), sums, strict=True)
    for op, op_type, time in names:
        found[str(op), op_type] += int(time) if time == time else 0
    return dict(found) if any(found.values()) else None


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
