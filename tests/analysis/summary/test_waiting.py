"""How long a step takes and the GPU waits in it, added by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.analysis import analyse
from tcprobe.schema.profile import Profile
from tcprobe.schema.waits import Waiting
from tests.analysis import builders as b

AVERAGE = {"iterations__average_iteration_time_(ns)": 2000.0, "iterations__aggregated_iterations": 5.0}
KERNEL_TIMES = {
    "all_kernels__kernels_using_tc__gpu_time_(ns)": 600.0,
    "all_kernels__all_other_kernels__gpu_time_(ns)": 400.0,
}


def waiting(*tables: Any, **metadata: Any) -> Waiting | None:
    return analyse(b.profile(*tables, **metadata)).waiting


def test_between_steps() -> None:
    made = b.launches(*((b.TC, -1, i, 100 * i + 10, 30) for i in range(5)))
    found = waiting(made, b.marks([0, 100, 200, 300, 400], 90), b.devices({}))
    assert found == Waiting(100.0, "between steps", 30.0, 70.0)


def test_a_step_is_busy_as_long_as_its_kernels_run_however_unlike_steps_are() -> None:
    made = b.launches(*((b.TC, -1, i, start, 30) for i, start in enumerate((0, 100, 200, 300, 900))))
    found = waiting(made, b.marks([0, 100, 200, 300, 900], 90), b.devices({}))
    assert found == Waiting(100.0, "between steps", 30.0, 70.0)  # the median; 600 ns of one change no kernel


@pytest.mark.parametrize(("long", "ran"), [(2000, 1900), (400, 390)])
def test_a_long_step_among_others_makes_none_of_them_busier(long: int, ran: int) -> None:
    """Eight steps of 100 ns with a kernel of 30, and one in the middle that retraced or evaluated."""
    starts = np.cumsum([0, *[100] * 4, long, *[100] * 3]).tolist()
    made = b.launches(*((b.TC, -1, i, start, ran if i == 4 else 30) for i, start in enumerate(starts)))
    found = waiting(made, b.marks(starts, 90), b.devices({}))
    assert found == Waiting(100.0, "between steps", 30.0, 70.0)


def test_kernels_that_run_late_are_of_the_step_that_launched_them() -> None:
    made = b.launches(*((b.TC, -1, i, 100 * i + 60, 80) for i in range(3)))
    found = waiting(made, b.marks([0, 100, 200], 90), b.devices({}))
    assert found == Waiting(100.0, "between steps", 80.0, 20.0)  # by their own time the first step has 40


def test_kernels_of_no_step_are_of_that_in_whose_time_they_were_launched() -> None:
    """A mark around the forward pass alone: 20 ns of each step's kernels are in it, 50 behind it."""
    inside = ((b.TC, -1, i, 100 * i + 5, 20) for i in range(5))
    made = b.launches(*inside, *((b.TC, -1, None, 100 * i + 40, 50) for i in range(-1, 5)))
    assert waiting(made, b.marks([0, 100, 200, 300, 400], 30), b.devices({})) == Waiting(
        100.0, "between steps", 70.0, 30.0
    )


def test_steps_outside_the_profiler_are_the_length_of_a_step() -> None:
    made = b.launches(*((b.TC, -1, i, 100 * i + 10, 50) for i in range(4)))
    tables = (
        made,
        b.marks([0, 100, 200, 300], 100),
        b.devices({}),
        b.steps((9, 900, 80, "after"), (10, 980, None, "after")),
    )
    assert waiting(*tables) == Waiting(80.0, "between steps", 50.0, 30.0)
    row = b.summary(analyse(b.profile(*tables)))["idle_pct"]
    assert (row["value"], row["reason"]) == (37.5, "of a step outside the profiled window; copies do not count as busy")


def test_kernels_that_take_longer_under_the_profiler_than_a_step_leave_no_wait() -> None:
    made = b.launches(*((b.TC, -1, i, 100 * i, 90) for i in range(4)))
    found = waiting(made, b.marks([0, 100, 200, 300], 100), b.devices({}), b.steps((9, 900, 80, "after")))
    assert found == Waiting(80.0, "between steps", 80.0, 0.0)


def test_the_mark_of_one_step() -> None:
    made = b.launches((b.TC, -1, 0, 100, 50), (b.FP32, -1, 0, 140, 40), (b.FP32, -1, 0, 500, 100))
    tables = made, b.marks([0], 550), b.devices({})
    # it ends with its last kernel, at 600; from 100 to 180 and 500 to 600 kernels ran
    assert waiting(*tables) == Waiting(600.0, "marked step", 180.0, 420.0)
    found = b.summary(analyse(b.profile(*tables)))
    assert (found["step_time_ns"]["value"], found["step_time_ns"]["basis"]) == (600.0, "measured")
    assert found["step_time_ns"]["reason"] == "the length of the one marked step, under the profiler"
    assert (found["window_ns"]["value"], found["gpu_busy_pct"]["value"], found["idle_pct"]["value"]) == (
        600.0,
        30.0,
        70.0,
    )


def test_the_capture_where_no_step_is_known() -> None:
    tables = b.launches((b.TC, -1, None, 100, 50), (b.TC, -1, None, 250, 50)), b.devices({})
    assert waiting(*tables) == Waiting(200.0, "capture", 100.0, 100.0)
    found = b.summary(analyse(b.profile(*tables)))
    assert (found["step_time_ns"]["value"], found["step_time_ns"]["reason"]) == (None, "no step is marked")
    assert found["idle_ns"]["reason"] == "of the capture: no step is known; copies do not count as busy"


def test_the_mean_over_gpus_that_ran_kernels() -> None:
    made = b.launches((b.TC, -1, 0, 0, 100), (b.TC, -1, 0, 0, 50, 1))
    devices = b.devices({}, {"device": 1}, {"device": 2, "state": "idle"})
    assert waiting(made, b.marks([0], 200), devices) == Waiting(200.0, "marked step", 75.0, 125.0)


@pytest.mark.parametrize(
    ("more", "busy"),
    [
        ({"summary_report__gpu_utilization_%": 4.0}, 80.0),
        ({"summary_report__gpu_utilization_%": 40.0, **KERNEL_TIMES}, 200.0),  # kernels take 1000 ns in five steps
        ({"summary_report__gpu_utilization_%": 0.0, **KERNEL_TIMES}, 200.0),  # rounded: less than 0.05 %
        (KERNEL_TIMES, 200.0),
    ],
)
def test_as_the_profiler_reports_it(more: dict[str, float], busy: float) -> None:
    told = {**AVERAGE, **KERNEL_TIMES, **more}
    assert waiting(b.reported(**told), format="dlprof_csv") == Waiting(2000.0, "reported", busy, 2000.0 - busy)


def test_a_reported_step_that_is_longer_than_its_kernels() -> None:
    told = b.reported(**{**AVERAGE, "iterations__aggregated_iterations": 1.0})
    made = b.launches((b.TC, -1, 0, 500, 100), (b.TC, -1, 0, 700, 100))
    found = analyse(b.profile(told, made, b.devices({}), format="dlprof_csv"))
    assert found.waiting == Waiting(2000.0, "reported", 200.0, 1800.0)
    (device,) = b.rows(found, "devices")
    assert (device["window_ns"], device["gpu_busy_pct"]) == (2000, 10.0)
    row = b.summary(found)["window_ns"]
    assert (row["value"], row["basis"]) == (2000.0, "reported")


def test_the_wall_clock_where_the_profiler_reports_no_iteration() -> None:
    told = b.reported(
        **{"summary_report__wall_clock_time_(ns)": 1000.0, "summary_report__gpu_idle_%": 75.0}, **KERNEL_TIMES
    )
    found = analyse(b.profile(told, format="dlprof_json"))
    assert found.waiting == Waiting(1000.0, "capture", 250.0, 750.0)
    assert b.summary(found)["window_ns"]["value"] == 1000.0


def test_without_a_clock_nothing_is_said() -> None:
    found = analyse(b.profile(b.reported(**KERNEL_TIMES), format="dlprof_csv"))
    assert found.waiting is None
    row = b.summary(found)["idle_pct"]
    assert (row["value"], row["reason"]) == (None, "the source does not say when things ran")


def test_a_cpu_run_has_no_gpu_that_waits() -> None:
    found = analyse(b.profile(b.host_ops(("a", "MatMul", 1, 5)), b.marks([0, 100, 200], 90), gpu_used=False))
    assert found.waiting is None
    assert b.summary(found)["idle_ns"]["reason"] == "no GPU: its time was not measured"


KERNEL = st.tuples(st.integers(0, 300), st.integers(0, 200), st.none() | st.integers(0, 3), st.integers(0, 2))


@given(st.lists(KERNEL, min_size=1, max_size=12), st.integers(0, 4), st.integers(1, 100))
def test_busy_and_idle_time_make_up_a_step(found: list[tuple[Any, ...]], marked: int, length: int) -> None:
    made = b.launches(*((b.TC, -1, step, start, spent, gpu) for start, spent, step, gpu in found))
    profile: Profile = b.profile(made, b.devices({}, {"device": 1}, {"device": 2}))
    if marked:
        profile = profile.with_tables(b.marks([100 * i for i in range(marked)], length))
    told = analyse(profile).waiting
    if told is not None:
        assert 0 <= told.busy_ns <= told.step_ns
        assert told.idle_ns == told.step_ns - told.busy_ns
        assert 0 <= told.idle_pct <= 100


@pytest.mark.parametrize(
    ("lengths", "typical"),
    [
        ([1, 9, 1, 9, 1, 9, 1], 31 / 7),  # every second one waits for its input: no step is typical, the mean counts
        ([2, 2, 2, 6] * 10, 3.0),  # every fourth one
        ([1, 1, 1, 1, 50], 1.0),  # one that stalled
        ([10, 11, 12, 13, 14, 15], 12.5),  # 14 is not 1.5 times 11
        ([1, 9, 1, 9], 5.0),  # too few to tell: the median
    ],
)
def test_a_step_of_unlike_ones_is_their_mean(lengths: list[int], typical: float) -> None:
    starts = np.cumsum([0, *lengths]).tolist()
    found = waiting(b.launches(*((b.TC, -1, i, at, 1) for i, at in enumerate(starts))), b.marks(starts, 1))
    assert found is not None and found.step_ns == pytest.approx(typical)


def test_what_a_step_waits_adds_up_where_every_second_one_is_slow() -> None:
    """Six steps of 10 and 40 us by turns, a kernel of 6 us in each."""
    starts = np.cumsum([0, 10, 40, 10, 40, 10]).tolist()
    launched = b.launches(*((b.TC, -1, i, 1000 * start, 6000) for i, start in enumerate(starts)))
    waiting = analyse(b.profile(launched, b.marks([1000 * s for s in starts], 7000))).waiting
    assert waiting is not None
    assert (waiting.step_ns, waiting.length) == (22_000, "between steps")  # (10 + 40 + 10 + 40 + 10) / 5
    assert waiting.busy_ns == 6_000
