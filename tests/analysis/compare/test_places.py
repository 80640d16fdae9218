"""Kernels by their place in a unit, and NVTX ranges: each change worked by hand."""

from __future__ import annotations

import pytest

from tcprobe.analysis import analyse
from tcprobe.schema.profile import Profile
from tcprobe.schema.tables import RANGES
from tests.analysis import builders as b
from tests.analysis.compare.builders import pair, timed

VOLTA = ("volta_h884gemm_128x64_ldg8_nn", "softmax_warp_forward", "relu_elementwise_kernel", "reduce_kernel")
AMPERE = ("ampere_fp16_s16816gemm_fp16_128x64_nn", "cunn_SoftMaxForward", "vectorized_elementwise_kernel", "reduce_1")
TIMES = (400, 50, 30, 20)


def units(names: tuple[str, ...], times: tuple[int, ...], begin: int = 0, count: int = 6) -> Profile:
    """A run of a unit of launches, of which the first `begin` are missing."""
    rows = [(name, -1, None, 1000 * n + 250 * p, times[p]) for n in range(count) for p, name in enumerate(names)]
    return analyse(b.profile(b.launches(*rows[begin:]), b.devices({}), gpu_used=True))


def test_kernels_of_other_names_are_joined_by_their_place() -> None:
    # the matmul takes 400 and 100 ns, the softmax 50 and 80; the other unit is seen from its third kernel on
    found = pair(units(VOLTA, TIMES), units(AMPERE, (100, 80, 30, 20), begin=2)).places
    assert [(one.place, one.kind, one.kernels, one.sides, one.changes) for one in found] == [
        (0, "matmul", (VOLTA[0], AMPERE[0]), (400.0, 100.0), (-300.0,)),
        (1, "softmax", (VOLTA[1], AMPERE[1]), (50.0, 80.0), (30.0,)),
        (2, "elementwise", (VOLTA[2], AMPERE[2]), (30.0, 30.0), (0.0,)),
        (3, "reduction", (VOLTA[3], AMPERE[3]), (20.0, 20.0), (0.0,)),
    ]


@pytest.mark.parametrize(
    "other",
    [
        units(VOLTA[:3], TIMES[:3]),  # a unit of three
        units(("memcpy_kernel", *VOLTA[:2], "memcpy_kernel_2"), TIMES),  # other kinds of work
        units(VOLTA, TIMES, count=2),  # nothing repeats
    ],
)
def test_units_that_are_not_alike_are_not_compared(other: Profile) -> None:
    assert pair(units(VOLTA, TIMES), other).places == ()


def ranges(profile: Profile, *rows: tuple[str, int]) -> Profile:
    """The run with ranges of (name, length), one after the other."""
    made = [
        {"name": name, "start_ns": 10**6 * n, "duration_ns": ns, "nests": True} for n, (name, ns) in enumerate(rows)
    ]
    return analyse(profile.with_tables(b.table(RANGES, made)))


def test_ranges_are_compared_by_the_mean_of_one() -> None:
    first = ranges(units(VOLTA, TIMES), ("find", 32), ("find", 28), ("load", 5), ("gone", 1))
    other = ranges(units(VOLTA, TIMES), ("find", 10), ("load", 7), ("load", 7), ("load", 7))
    found = pair(first, other).ranges
    assert [(one.name, one.sides, one.changes, one.calls) for one in found] == [
        ("find", (30.0, 10.0), (-20.0,), (2, 1)),
        ("load", (5.0, 7.0), (2.0,), (1, 3)),
    ]


def test_a_range_that_changed_is_named_before_the_machine_is_blamed() -> None:
    slow, fast = timed([30_000_000] * 20), timed([10_000_000] * 20)
    named = pair(ranges(slow, ("find_centers", 32_200_000)), ranges(fast, ("find_centers", 11_500_000)))
    (note,) = (one for one in named.notes if one.code in ("ranges-differ", "nothing-else-differs"))
    assert note.code == "ranges-differ" and "find_centers does above all: 32.2 ms -> 11.5 ms" in note.message
    alike = pair(ranges(slow, ("find_centers", 11_600_000)), ranges(fast, ("find_centers", 11_500_000)))
    assert [one.code for one in alike.notes if one.code.endswith("differs")] == ["nothing-else-differs"]
