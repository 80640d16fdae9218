"""Compare the clocks of ranks by moments that all share, and say who came last to each of these."""

from __future__ import annotations

from typing import Final, Literal

import numpy as np
from msgspec import Struct

from tcprobe.analysis.kernels.names import COMMUNICATES
from tcprobe.analysis.kernels.verdict import by_name
from tcprobe.schema.columns import IntArray, Names
from tcprobe.schema.profile import Profile

MOST: Final = 100_000  # moments of a rank that are compared
FEWEST: Final = 3  # of fewer, the median says nothing
FAR: Final = 0.25  # of the time from one moment to the next: a median distance from here on may be that of another one
# NCCL names kernels by what they do (ncclDevKernel_AllReduce_Sum_f32_RING_LL): of these none ends before all began
_FOR_ALL: Final = ("AllReduce", "AllGather", "ReduceScatter")
MomentKind = Literal["collectives", "kernels", "steps"]


class Moments(Struct, frozen=True):
    """Moments that ranks share, each on the clock of its own file."""

    kind: MomentKind  # calls of the host, kernels that communicate, or steps
    names: list[str]  # what each is, or its number
    start: IntArray  # when the rank came to it, in ns
    end: IntArray  # when it left it: all ranks do so at about the same time


class Clock(Struct, frozen=True):
    """How the clock of a rank compares with the reference."""

    offset_ns: float  # what is added to its times
    residual_ns: float  # median distance of the ends from those of the reference then
    count: int  # moments compared


class Arrivals(Struct, frozen=True):
    """Who of some ranks came last to each moment, on the reference's clock."""

    last_ns: IntArray
    who: IntArray  # place of that rank among these ranks


def moments_of(profile: Profile) -> Moments | None:
    """Return the moments of a rank that others share: collectives of the host or of the GPU, else steps; None: none."""
    found = max(_of_host(profile), _of_gpu(profile), key=lambda one: len(one.names))
    found = found if len(found.names) >= FEWEST else _steps(profile)
    return found if len(found.names) >= FEWEST else None


def _made(kind: MomentKind, names: Names, start: IntArray, duration: IntArray) -> Moments:
    order = np.argsort(start, kind="stable")[:MOST]
    told = [name or "" for name in names.take(order).tolist()]
    return Moments(kind, told, start[order], start[order] + duration[order])


def _of_host(profile: Profile) -> Moments:
    table = profile.require("collectives")
    return _made("collectives", table.names("name"), table.numbers("start_ns"), table.numbers("duration_ns"))


def _of_gpu(profile: Profile) -> Moments:
    """Return the communication between all GPUs on the first GPU that has any."""
    launches = profile.require("launches")
    names = launches.names("kernel")
    rows = names.among(*(n for n in names.names if by_name(n).rule in COMMUNICATES and any(w in n for w in _FOR_ALL)))
    devices = launches.numbers("device")
    rows &= devices == (devices[rows].min() if rows.any() else -1)
    times = (launches.numbers(name)[rows] for name in ("start_ns", "duration_ns"))
    return _made("kernels", names.take(rows), *times)


def _steps(profile: Profile) -> Moments:
    """Return the steps that are marked on the clock of the profile, else those of the workload's own."""
    for name, number in (("iterations", "iteration"), ("steps", "step")):
        table = profile.require(name)
        known = ~np.isnan(table.numbers("start_ns") + table.numbers("duration_ns"))
        if np.count_nonzero(known) >= FEWEST:
            start, duration = (table.numbers(c)[known].astype(np.int64) for c in ("start_ns", "duration_ns"))
            numbers = Names.of([str(value) for value in table.take(known).values(number)])
            return _made("steps", numbers, start, duration)
    return Moments("steps", [], *np.zeros((2, 0), np.int64))


def compare_clocks(moments: Moments, reference: Moments) -> Clock | None:
    """Return how a rank's clock compares with the reference's; None where its moments are not those of the reference.

    The n-th moments belong together: both files begin before the first. Where a median distance is a quarter of the
    time from one moment to the next, they need not, and nothing is concluded.
    """
    if moments.kind != reference.kind:
        return None
    pairs = zip(moments.names, reference.names, strict=False)
    shared = min(len(moments.names), len(reference.names))
    count = next((at for at, (one, other) in enumerate(pairs) if one != other), shared)
    if count < FEWEST:
        return None
    behind = reference.end[:count] - moments.end[:count]
    offset = float(np.median(behind))
    residual = float(np.median(np.abs(behind - offset)))
    apart = float(np.median(np.diff(reference.end[:count])))
    return Clock(offset, residual, count) if residual <= FAR * apart else None


def arrivals_of(moments: Moments, clock: Clock | None) -> Arrivals | None:
    """Return the arrivals of one rank; None of steps, which begin where they begin, and where clocks do not compare."""
    if clock is None or moments.kind == "steps":
        return None
    start = moments.start[: clock.count] + round(clock.offset_ns)
    return Arrivals(start, np.zeros(clock.count, np.int64))


def join_arrivals(one: Arrivals | None, other: Arrivals | None, ranks: int) -> Arrivals | None:
    """Return the arrivals of some ranks and, behind these, of others.

    Args:
        one: of the first ranks.
        other: of the others.
        ranks: how many the first are.
    """
    if other is None:
        return one
    other = Arrivals(other.last_ns, other.who + ranks)
    if one is None:
        return other
    short, long = sorted((one, other), key=lambda each: len(each.last_ns))
    count = len(short.last_ns)
    later = other.last_ns[:count] > one.last_ns[:count]
    last = np.where(later, other.last_ns[:count], one.last_ns[:count])
    who = np.where(later, other.who[:count], one.who[:count])
    return Arrivals(np.append(last, long.last_ns[count:]), np.append(who, long.who[count:]))
