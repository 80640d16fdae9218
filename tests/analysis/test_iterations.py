"""Which iterations count."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tcprobe.analysis.iterations import choose_window, collect_iterations
from tcprobe.analysis.options import Options
from tcprobe.errors import UsageError
from tcprobe.schema.profile import Profile, Window
from tests.analysis import builders as b


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
    ],
)
def test_detection(durations: list[int], kernels: list[int] | None, bounds: tuple[int, int]) -> None:
    found = window(run(durations, kernels))
    assert (found.first, found.last) == bounds


def test_dlprof_iteration_0_holds_the_start_up() -> None:
    found = window(run([100] * 6, format="dlprof_csv"))
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


def test_durations_do_not_bridge_a_gap_in_the_numbers() -> None:
    rows = [(b.TC, -1, i, 100 * i, 10) for i in (0, 1, 4, 5)]
    found = collect_iterations(b.profile(b.launches(*rows)))
    assert found.numbers.tolist() == [0, 1, 4, 5]
    assert [None if np.isnan(d) else d for d in found.duration_ns] == [100, None, 100, None]


def test_few_steps_are_warned_about() -> None:
    profile = run([100, 100])
    notes = choose_window(profile, collect_iterations(profile), Options())[1]
    assert [n.code for n in notes] == ["few-steps"]


@pytest.mark.parametrize(("ran", "remedy"), [(100, None), (4, "train for at least 10 steps after warm-up")])
def test_few_steps_of_the_probe_have_its_reason(ran: int, remedy: str | None) -> None:
    """A long run is not told to be longer: the window was cut for another reason."""
    chosen = {"window": {"first_step": 1, "last_step": 2, "reason": "cut short: the trace takes 59 MB a step"}}
    profile = run([100] * 4, name="tcprobe_step", run=chosen)
    profile = profile.with_tables(b.steps(*((step, 100 * step, 100, "measured") for step in range(ran))))
    (note,) = choose_window(profile, collect_iterations(profile), Options())[1]
    why = f"in a run of {ran} steps: cut short: the trace takes 59 MB a step"
    assert (note.code, note.message, note.remedy) == ("few-steps", f"the window holds 2 of 4 iterations, {why}", remedy)


def test_a_bound_in_a_gap_of_the_numbers_is_refused() -> None:
    rows = [(b.TC, -1, i, 100 * i, 10) for i in (0, 1, 4, 5)]
    with pytest.raises(UsageError, match="no iteration was recorded"):
        window(b.profile(b.launches(*rows)), Options(iter_start=2, iter_stop=3))
    first_is_longer = [(b.TC, -1, i, 100 * i, 1000 if i == 0 else 10) for i in (0, 3, 4, 5, 6, 7)]
    with pytest.raises(UsageError, match="no iteration was recorded"):
        window(b.profile(b.launches(*first_is_longer)), Options(iter_stop=2))
