"""Which step launched a kernel."""

from __future__ import annotations

import numpy as np

from tcprobe.readers.xspace.gpu import NONE, DeviceEvents
from tcprobe.readers.xspace.host import Host, Mark
from tcprobe.readers.xspace.tables import choose_steps, iterations, launch_times


def mark(name: str, step: int | None, start: int, *, root: bool = True, group: int | None = None) -> Mark:
    return Mark(name, step, root, group, start, start + 90)


def events(correlation: list[int], group: list[int] | None = None) -> DeviceEvents:
    none = np.zeros(len(correlation), np.int64)
    groups = np.array(group if group is not None else [NONE] * len(correlation), np.int64)
    return DeviceEvents(none, none, none, np.array(correlation), groups, none, none, none, ["k"], [], [])


def test_our_marks_come_before_all_others() -> None:
    marks = [mark("train", 1, 0), mark("tcprobe_step", 8, 5), mark("x", 3, 9), mark("tcprobe_step", 9, 200)]
    assert choose_steps(marks).number == (8, 9)


def test_then_keras_2_then_any_root_then_any_number_then_groups() -> None:
    train, custom = mark("train", 1, 0), mark("custom", 2, 0)
    batch, group = mark("Profiled batch", 3, 0, root=False), mark("EagerKernelExecute", None, 0, group=4)
    assert choose_steps([group, batch, custom, train]).number == (1,)
    assert choose_steps([group, batch, custom]).number == (2,)
    assert choose_steps([group, batch]).number == (3,)
    assert choose_steps([group]).number == (4,)
    assert choose_steps([]).number == ()


def test_of_several_names_the_most_frequent_counts() -> None:
    marks = [mark("eval", 0, 0), mark("step", 4, 300), mark("step", 3, 100)]
    assert choose_steps(marks).number == (3, 4)


def test_repeating_numbers_are_counted_anew() -> None:
    found = choose_steps([mark("step", 0, 0), mark("step", 1, 100), mark("step", 0, 200)])
    assert (found.number, found.renumbered) == ((0, 1, 2), True)


def test_a_launch_belongs_to_the_last_step_that_began_before_it() -> None:
    steps = choose_steps([mark("step", 7, 100), mark("step", 8, 200)])
    launch = np.array([50, 100, 150, 195, 200, 10_000, NONE])
    found = iterations(steps, events([0] * 7), launch)
    np.testing.assert_array_equal(found, [np.nan, 7, 7, 7, 8, 8, np.nan])


def test_a_stored_group_comes_before_the_launch_time() -> None:
    steps = choose_steps([mark("step", 7, 100, group=0), mark("step", 8, 200, group=5)])
    found = iterations(steps, events([0] * 4, [0, 5, 3, NONE]), np.array([250, 150, 150, 150]))
    np.testing.assert_array_equal(found, [7, 8, np.nan, 7])


def test_groups_without_marks_are_the_steps() -> None:
    found = iterations(choose_steps([]), events([0] * 3, [0, 2, NONE]), np.array([NONE] * 3))
    np.testing.assert_array_equal(found, [0, 2, np.nan])


def test_the_first_launch_under_a_correlation_id_counts() -> None:
    host = Host(
        correlation=[np.array([9, 300_000_000, 4]), np.array([4])], launch_ns=[np.array([5, 6, 70]), np.array([7])]
    )
    assert launch_times(host.launches(), events([4, 9, 5, 300_000_000, NONE])).tolist() == [7, 5, NONE, 6, NONE]


def test_no_launches_at_all() -> None:
    assert launch_times(Host().launches(), events([4])).tolist() == [NONE]


def test_the_only_step_takes_the_bounds_that_the_profiler_derived() -> None:
    spans = [{3: (50, 400)}, {3: (20, 300), 4: (500, 600)}]
    (only,) = choose_steps([mark("EagerKernelExecute", None, 10, group=3)], spans).marks
    assert (only.start_ns, only.end_ns) == (20, 400)
    (other,) = choose_steps([mark("EagerKernelExecute", None, 10, group=9)], spans).marks
    assert (other.start_ns, other.end_ns) == (10, 100)


def test_several_marks_keep_their_bounds() -> None:
    marks = [mark("train", 3, 10, group=3), mark("train", 4, 500, group=4)]
    assert choose_steps(marks, [{3: (50, 400), 4: (700, 900)}]).marks == tuple(marks)


def test_without_marks_the_derived_steps_count() -> None:
    found = choose_steps([], [{5: (900, 990)}, {4: (100, 400), 5: (880, 950)}])
    assert found.number == (4, 5)
    assert [(m.start_ns, m.end_ns) for m in found.marks] == [(100, 400), (880, 990)]
