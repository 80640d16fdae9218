"""Which iterations count, and what is said of the choice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from tcprobe.analysis.context import Options
from tcprobe.analysis.iterations import collect_iterations
from tcprobe.analysis.window import choose_window
from tcprobe.errors import UsageError
from tcprobe.schema.columns import Table
from tcprobe.schema.profile import Note, Profile, Window
from tcprobe.schema.tables import STEP_MARKS
from tests.analysis import builders as b

MS = 1_000_000


def run(durations: list[int], kernels: list[int] | None = None, **metadata: Any) -> Profile:
    """Steps of these lengths, each with so many kernels of 10 ns."""
    starts = np.cumsum([0, *durations]).tolist()
    rows = [
        (b.TC, -1, i, starts[i] + 10 * k, 10) for i in range(len(durations)) for k in range((kernels or [2] * 99)[i])
    ]
    name = metadata.pop("name", "train")
    return b.profile(b.launches(*rows), b.marks(starts[:-1], 5, name), **metadata)


def window(profile: Profile, options: Options | None = None) -> Window:
    return choose_window(profile, collect_iterations(profile), options or Options())[0]


@pytest.mark.parametrize(
    ("durations", "kernels", "bounds"),
    [
        ([900, 100, 100, 100, 100, 100], None, (1, 5)),  # compilation
        ([100, 100, 100, 100, 100, 100], [40, 40, 2, 2, 2, 2], (2, 5)),  # autotuning
        ([100, 100, 100, 100, 100, 100], [2, 2, 2, 2, 2, 1], (0, 4)),  # cut off in the last step
        ([100, 100, 100, 400, 100, 100], None, (0, 5)),  # one slow step in the middle is the run's own
        ([100, 110, 95, 100, 105, 100], None, (0, 5)),
        ([900, 100, 100], None, (0, 2)),  # too few to tell
        ([900] + [220, 8] * 6, None, (1, 12)),  # every second one waits for its input
        ([100] * 13, [40] + [2, 4] * 6, (1, 12)),  # every second one runs the optimizer
    ],
)
def test_detection(durations: list[int], kernels: list[int] | None, bounds: tuple[int, int]) -> None:
    found = window(run(durations, kernels))
    assert (found.first, found.last) == bounds


def test_dlprof_iteration_0_holds_the_start_up() -> None:
    found = window(replace(run([100] * 6), traits=frozenset({"key_node"})))
    assert (found.first, found.last) == (1, 5)


def test_window_of_the_probe_is_taken_as_it_is() -> None:
    chosen = {"window": {"first_step": 2, "last_step": 4, "reason": "settled"}}
    found = window(run([900] + [100] * 6, name="tcprobe_step", run=chosen))
    assert (found.first, found.last, found.basis) == (2, 4, "profiled by the probe")
    assert window(run([900] + [100] * 6, run=chosen)).basis == "detected"  # marks of another's making


def test_window_ends_where_the_following_step_starts() -> None:
    found = window(run([100] * 6), Options(iter_start=1, iter_stop=2))
    assert (found.start_ns, found.end_ns) == (100, 300)


def test_last_step_ends_with_its_last_kernel() -> None:
    found = window(run([100] * 6))
    assert found.end_ns == 500 + 20  # its mark ends at 505, its second kernel at 520


def test_few_steps_are_warned_about() -> None:
    profile = run([100, 100])
    notes = choose_window(profile, collect_iterations(profile), Options())[1]
    assert [n.code for n in notes] == ["few-steps"]


def probed(lengths: list[int], last: int, *tables: Table, first: int = 2, **chosen: object) -> Profile:
    """A probed run of steps of these lengths in ms, profiled from `first` to `last`; each launches two kernels."""
    starts = np.cumsum([0, *lengths]).tolist()
    kinds = ["warm-up" if i < first else "profiled" if i <= last else "after" for i in range(len(lengths))]
    rows = [(i, MS * starts[i], MS * length, kinds[i]) for i, length in enumerate(lengths)]
    inside = range(first, last + 1)
    kernels = [(b.TC, -1, i, MS * starts[i] + 10 * k, 10) for i in inside for k in range(2)]
    marks = [
        {"iteration": i, "name": "tcprobe_step", "start_ns": MS * starts[i], "end_ns": MS * starts[i] + 5}
        for i in inside
    ]
    run_ = {"window": {"first_step": first, "last_step": last, **chosen}}
    made = {t.spec.name: t for t in (b.launches(*kernels), b.table(STEP_MARKS, marks), b.steps(*rows), *tables)}
    return b.profile(*made.values(), run=run_)


def said(profile: Profile, options: Options | None = None) -> dict[str, Note]:
    notes = choose_window(profile, collect_iterations(profile), options or Options())[1]
    assert len({n.code for n in notes}) == len(notes)
    return {n.code: n for n in notes}


def test_the_window_leaves_out_an_epochs_end() -> None:
    profile = probed([20] * 8 + [3500] + [20] * 40, last=21)
    found = window(profile)
    assert (found.first, found.last) == (9, 21)  # 2 to 7 is shorter
    assert found.length_ns == 12 * 20 * MS + 20  # twelve starts after the first, and two kernels of the last
    note = said(profile)["epoch-end-left-out"]
    assert note.message.startswith("iteration 8 (3.5 s) is far longer than the others and rare, as an epoch's end is")
    assert note.level == "note"


@pytest.mark.parametrize(("xla", "called_in", "may"), [(True, [3], True), (None, [3], False), (True, None, False)])
def test_a_long_step_may_be_one_that_xla_compiles_for_other_sizes(
    xla: bool | None, called_in: list[int] | None, may: bool
) -> None:
    sizes = b.graph(b.dense("head", 64, 128, called_in=called_in, part=0))
    profile = probed([20] * 8 + [3500] + [20] * 40, 21, sizes).with_metadata(xla=xla)
    message = said(profile)["epoch-end-left-out"].message
    assert ("(validation, a checkpoint), or a step for which XLA compiles other sizes: " in message) is may


def test_the_window_leaves_out_what_traced_again_and_says_so() -> None:
    profile = probed([20] * 8 + [3500] + [20] * 40, last=21)
    seen = [{"name": "train.step", "at_ns": (8 * 20 + 3499) * MS}]
    profile = profile.with_metadata(run={**profile.metadata.run, "retraces": seen})
    assert (window(profile).first, window(profile).last) == (9, 21)
    notes = said(profile)
    assert set(notes) == {"retrace-left-out"}
    assert notes["retrace-left-out"].message.startswith("iteration 8 (3.5 s) traced train.step again: the window is")


def test_the_window_keeps_every_third_step_that_takes_longer() -> None:
    profile = probed([20, 20, 90] * 16, last=21)
    assert (window(profile).first, window(profile).last) == (2, 21)
    assert said(profile) == {}


def test_the_window_leaves_out_a_time_in_which_the_workload_stood_still() -> None:
    """It is none of training, and would count as time of an idle GPU."""
    profile = probed([20] * 8 + [5000] + [20] * 40, last=21)
    steps = profile.require("steps")
    lengths = [None if step == 8 else 20 * MS for step in steps.values("step")]
    told = Note("stood-still", "the workload stood still once", None, "note")
    profile = profile.with_tables(steps.with_columns(duration_ns=lengths)).with_notes(told)
    found = window(profile)
    assert (found.first, found.last, found.length_ns) == (9, 21, 12 * 20 * MS + 20)
    assert said(profile)["stop-left-out"].message.startswith("the workload stood still in iteration 8: the window is")


def test_what_ran_in_an_iteration_tells_of_its_end_where_length_alone_does_not() -> None:
    lengths = [20] * 8 + [90] + [20] * 12  # 4.5 times a step, once
    profile = probed(lengths, last=18)
    assert (window(profile).first, window(profile).last) == (2, 18)
    starts = np.cumsum([0, *lengths]).tolist()
    each = {i: 6 if i == 8 else 2 for i in range(2, 19)}  # and three times as many kernels: validation
    kernels = b.launches(*((b.TC, -1, i, MS * starts[i] + 10 * k, 10) for i, n in each.items() for k in range(n)))
    found = window(profile.with_tables(kernels))
    assert (found.first, found.last) == (9, 18)


def test_a_window_that_was_asked_for_keeps_an_epochs_end() -> None:
    profile = probed([20] * 8 + [3500] + [20] * 40, last=21)
    found = window(profile, Options(iter_start=5, iter_stop=10))
    assert (found.first, found.last) == (5, 10)
    assert said(profile, Options(iter_start=5, iter_stop=10)) == {}


def test_slow_steps_of_other_tools_stay_however_long() -> None:
    assert (window(run([100] * 4 + [9000] + [100] * 8)).first, window(run([100] * 13)).last) == (0, 12)


def test_the_window_is_of_one_phase() -> None:
    profile = probed([20] * 60, 21, b.phases((0, 9, {0: 1}), (10, 59, {1: 1})))
    found = window(profile)
    assert (found.first, found.last) == (10, 21)
    assert "another begins at iteration 10" in said(profile)["phase-left-out"].message


def test_fewer_kernels_of_another_phase_are_no_lost_ones() -> None:
    profile = probed([20] * 60, 21, b.phases((0, 19, {0: 1}), (20, 59, {1: 1})))
    launches = profile.require("launches")
    half = launches.take((launches.numbers("iteration") < 20) | (launches.numbers("start_ns") % MS == 0))
    assert list(said(profile.with_tables(half))) == ["phase-left-out"]


def test_a_window_asked_for_that_holds_two_phases_is_warned_about() -> None:
    profile = probed([20] * 60, 21, b.phases((0, 9, {0: 1}), (10, 59, {1: 1})))
    note = said(profile, Options(iter_start=5, iter_stop=15))["several-phases"]
    assert note.remedy == "count one: --iter-stop 9, or --iter-start 10"
    assert said(profile, Options(iter_start=5, iter_stop=9)) == {}
    assert said(profile, Options(iter_start=10)) == {}


@pytest.mark.parametrize(
    ("count", "remedy"),
    [
        (100, "profile with --iter-start 2 --iter-stop 11"),
        (12, "profile with --iter-start 2 --iter-stop 11"),
        (11, "train for at least 12 steps: there were 11"),
    ],
)
def test_few_steps_of_a_run_say_what_this_run_can_give(count: int, remedy: str) -> None:
    note = said(probed([20] * count, 4, first=3, reason="cut short: the trace took 200 MB"))["few-steps"]
    assert note.message == "the window holds 2 of 2 iterations: cut short: the trace took 200 MB"
    assert note.remedy == remedy


def test_few_steps_that_were_asked_for_need_no_warning() -> None:
    profile = probed([20] * 100, 4, first=3)
    asked = profile.with_metadata(run={**profile.metadata.run, "iter_start": 3, "iter_stop": 4})
    assert said(asked) == {}
    lost = asked.with_tables(
        asked.require("steps").with_columns(duration_ns=[MS * (3500 if i == 4 else 20) for i in range(100)])
    )
    assert said(lost)["few-steps"].message == "the window holds 1 of 2 iterations: the others are left out"


def test_a_profile_of_many_steps_is_not_told_to_record_more() -> None:
    kernels = [1, 1, 1, 1, 1, 10, 40, 90, 40, 40]  # the median of the later ones is 40
    note = said(run([2000] * 6 + [9000] + [2000] * 3, kernels))["few-steps"]
    assert note.message == "the window holds 2 of 10 iterations: the others deviate"
    assert note.remedy == "choose with --iter-start, --iter-stop"


def test_few_steps_of_a_phase_are_of_that_phase() -> None:
    profile = probed([20] * 60, 33, b.phases((0, 29, {0: 1}), (30, 59, {1: 1})), first=32)
    assert said(profile)["few-steps"].remedy == "profile with --iter-start 32 --iter-stop 41"


def test_few_calls_of_many_steps_are_enough() -> None:
    steps = b.steps(
        (0, 0, 20, "warm-up"), (50, 1000, 20, "profiled"), (100, 2000, 20, "profiled"), (150, 3000, None, "after")
    )
    marks = [{"iteration": i, "name": "tcprobe_step", "start_ns": 20 * i, "end_ns": 20 * i + 900} for i in (50, 100)]
    chosen = {"window": {"first_step": 50, "last_step": 149}}
    assert said(b.profile(b.table(STEP_MARKS, marks), steps, run=chosen)) == {}


def test_a_step_inside_a_call_of_several_may_be_asked_for() -> None:
    steps = b.steps(
        (0, 0, 20, "warm-up"), (5, 100, 20, "profiled"), (10, 200, 20, "profiled"), (15, 300, None, "profiled")
    )
    marks = [{"iteration": i, "name": "tcprobe_step", "start_ns": 20 * i, "end_ns": 20 * i + 90} for i in (5, 10, 15)]
    profile = b.profile(b.table(STEP_MARKS, marks), steps, run={"window": {"first_step": 5, "last_step": 19}})
    found = window(profile, Options(iter_start=8, iter_stop=19))
    assert (found.first, found.last) == (5, 15)
    with pytest.raises(UsageError, match="5 to 19"):
        window(profile, Options(iter_stop=20))


def test_a_bound_in_a_gap_of_the_numbers_is_refused() -> None:
    rows = [(b.TC, -1, i, 100 * i, 10) for i in (0, 1, 4, 5)]
    with pytest.raises(UsageError, match="no iteration was recorded"):
        window(b.profile(b.launches(*rows)), Options(iter_start=2, iter_stop=3))
    first_is_longer = [(b.TC, -1, i, 100 * i, 1000 if i == 0 else 10) for i in (0, 3, 4, 5, 6, 7)]
    with pytest.raises(UsageError, match="no iteration was recorded"):
        window(b.profile(b.launches(*first_is_longer)), Options(iter_stop=2))
