"""Clocks of ranks: how far apart they are, who came last, and when nothing is concluded."""

from __future__ import annotations

import numpy as np
import pytest

from tcprobe.analysis.ranks.clocks import Moments, arrivals_of, compare_clocks, join_arrivals, moments_of
from tcprobe.schema.columns import Table
from tcprobe.schema.profile import Metadata, Profile
from tcprobe.schema.tables import COLLECTIVES
from tests.analysis.builders import launches, steps


def moments(start: list[int], end: list[int], name: str = "MPI_Barrier") -> Moments:
    return Moments("collectives", [name] * len(start), np.array(start), np.array(end))


FIRST = moments([0, 1000, 2100, 3000], [100, 1100, 2150, 3100])


def test_the_offset_is_the_median_and_the_residual_what_is_left() -> None:
    other = moments([5090, 6000, 7000, 8000], [5100, 6104, 7150, 8100])
    clock = compare_clocks(other, FIRST)
    assert clock is not None
    assert (clock.offset_ns, clock.residual_ns, clock.count) == (-5000, 0, 4)


def test_who_comes_last_to_each() -> None:
    other, third = moments([5090, 6000, 7000], [5100, 6100, 7150]), moments([-10, 1050, 2101], [100, 1100, 2150])
    parts = [arrivals_of(one, compare_clocks(one, FIRST)) for one in (FIRST, other, third)]
    found = join_arrivals(join_arrivals(parts[0], parts[1], 1), parts[2], 2)
    assert found is not None
    assert found.last_ns.tolist() == [90, 1050, 2101, 3000], "the last moment is of the first rank alone"
    assert found.who.tolist() == [1, 2, 2, 0]
    again = join_arrivals(parts[0], join_arrivals(parts[1], parts[2], 1), 1)
    assert again is not None and again.who.tolist() == found.who.tolist()


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (moments([0, 900, 2000, 2100], [0, 1900, 2150, 4900]), "they move against one another"),
        (moments([0, 1000], [100, 1100]), "two moments tell nothing"),
        (moments([0, 1000, 2100], [100, 1100, 2150], "MPI_Allreduce"), "other calls"),
        (Moments("steps", ["MPI_Barrier"] * 4, FIRST.start, FIRST.end), "another kind"),
    ],
)
def test_nothing_is_concluded(other: Moments, why: str) -> None:
    assert compare_clocks(other, FIRST) is None, why


def test_moments_are_collectives_of_host_or_gpu_before_steps() -> None:
    calls = Table.from_rows(
        COLLECTIVES, [{"name": "MPI_Barrier", "start_ns": at, "duration_ns": 5} for at in (9, 0, 4)]
    )
    kernels = launches(
        *(("ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", -1, 0, at, 7, device) for device in (1, 2) for at in range(4)),
        ("ncclDevKernel_SendRecv(x)", -1, 0, 0, 7, 0),
    )
    own = steps((0, 0, 10, "measured"), (1, 10, 10, "measured"), (2, 20, 10, "measured"), (3, 30, None, "measured"))
    profile = Profile(Metadata("made")).with_tables(own)
    assert moments_of(Profile(Metadata("made"))) is None
    found = moments_of(profile)
    assert found is not None and (found.kind, found.names) == ("steps", ["0", "1", "2"])
    assert arrivals_of(found, compare_clocks(found, found)) is None, "a step begins where it begins"
    found = moments_of(profile.with_tables(calls))
    assert found is not None and (found.kind, found.start.tolist()) == ("collectives", [0, 4, 9])
    found = moments_of(profile.with_tables(calls, kernels))
    assert found is not None and (found.kind, found.end.tolist()) == ("kernels", [7, 8, 9, 10])
