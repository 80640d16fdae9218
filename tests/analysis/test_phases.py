"""The figures are of the phase that the window lies in: no step and no product of another one is in them."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.analysis import Options, analyse
from tcprobe.analysis.phases import LONG, graph_of, in_phase, long_steps, phase_rows, slow_steps, steps_by_phase
from tcprobe.schema.columns import Table
from tcprobe.schema.op import Part
from tcprobe.schema.profile import Note, Profile
from tests.analysis import builders as b

ONE = 2 * 32 * 64 * 64  # FLOPs of a Dense of 64 on 32 samples of 64


def dense(part: int | None, calls: float | None, **more: Any) -> dict[str, Any]:
    name = f"part_{part}"
    made = b.dense(f"{name}/dense", 64, 64, function=f"__inference_{name}_{part}")
    return {**made, "part": part, "calls_per_step": calls, "repeats": 1.0, **more}


def run(*tables: Table, window: tuple[int, int] | None = (22, 25), **metadata: Any) -> Profile:
    """A CPU run of 20 steps of 5 ns, then 20 of 100 ns; the probe profiled 22 to 25."""
    steps = [(i, 0, 5 if i < 20 else 100, kind(i)) for i in range(40)]
    chosen = {"window": None if window is None else {"first_step": window[0], "last_step": window[1]}}
    phases = b.phases((0, 19, {0: 2.0}), (20, 39, {1: 1.0, 2: 5.0}))
    graph = b.graph(dense(0, 0.0), dense(1, 1.0), dense(2, 5.0))
    given = {t.spec.name: t for t in (b.steps(*steps), phases, graph, *tables)}
    return b.profile(*given.values(), **{"run": chosen, "gpu_used": False, **metadata})


def kind(step: int) -> str:
    return "warm-up" if step < 22 else "profiled" if step < 26 else "after"


def row(profile: Profile, phase: int) -> dict[str, Any]:
    return b.rows(profile, "phases")[phase]


def flops(profile: Profile) -> float | None:
    value: float | None = b.summary(profile)["flops_per_step"]["value"]
    return value


def test_a_step_holds_what_its_phase_calls() -> None:
    out = analyse(run())
    assert flops(out) == 6 * ONE  # 1 x part 1 + 5 x part 2; part 0 is the other phase's
    assert {r["layer"] for r in b.rows(out, "layers")} == {"part_1/dense", "part_2/dense"}
    assert b.summary(out)["step_time_ns"]["value"] == 100


def test_each_phase_has_its_own_products_and_length() -> None:
    out = analyse(run())
    first, second = row(out, 0), row(out, 1)
    assert (first["flops"], first["products"], first["at_least"]) == (2 * ONE, 1, False)
    assert (second["flops"], second["products"], second["at_least"]) == (6 * ONE, 2, False)
    # Of 20 steps the first two trace, and the last ends with what the next phase begins with: 17. After the window, 26
    # to 39: 14, of which the last has no length but here.
    assert (first["step_ns"], first["timed_steps"], first["timed"]) == (5, 17, "warm-up")
    assert (second["step_ns"], second["timed_steps"], second["timed"]) == (100, 14, "after")
    assert (first["in_window"], first["profiled"], first["iter_start"]) == (False, False, 2)
    assert (second["in_window"], second["profiled"], second["iter_start"]) == (True, True, None)


@pytest.mark.parametrize(
    ("part", "recorded", "gap"),
    [
        (dense(3, 1.0), True, None),
        (dense(3, 1.0, input_shapes=None), True, "unknown_product"),
        (
            [dense(3, 1.0), dense(3, 1.0, function="__inference_part_3_9", input_shapes=[[8, 64], [64, 64]])],
            True,
            "several_sizes",
        ),
        ([dense(3, 1.0), dense(3, 1.0, function="__inference_part_3_9")], True, None),
        (
            [dense(3, 1.0), dense(3, 1.0, function="__inference_part_3_9", input_shapes=[[None, 64], [64, 64]])],
            True,
            None,
        ),
        (None, True, "no_product"),
        (None, False, "not_recorded"),
    ],
    ids=str,
)
def test_why_the_flops_of_a_phase_are_unknown(part: Any, recorded: bool, gap: str | None) -> None:
    parts = Part.text_of([Part(3, "part_3", 1.0, recorded=recorded)])
    phases = b.phases((0, 19, {3: 1.0}), (20, 39, {1: 1.0, 2: 5.0}))
    phases = phases.with_columns(parts=[parts, phases.values("parts")[1]])
    graph = b.graph(dense(1, 1.0), dense(2, 5.0), *(part if isinstance(part, list) else [] if part is None else [part]))
    first = row(analyse(run(phases, graph)), 0)
    assert (first["flops"] is None, first["flops_gap"]) == (gap is not None, gap)


def test_the_graph_as_recorded_stays_whole() -> None:
    assert len(analyse(run()).require("graph_ops")) == 3


def test_parts_that_the_counted_steps_do_not_call_are_named_once() -> None:
    out = analyse(run())
    (note,) = (n for n in out.metadata.notes if n.code == "not-in-step")
    assert "part_0" in note.message
    assert "part_1" not in note.message
    assert note.level == "note"


def test_a_part_with_the_name_of_a_counted_one_is_not_said_to_be_uncalled() -> None:
    graph = b.graph({**dense(0, 0.0), "function": "__inference_part_1_7"}, dense(1, 1.0))
    listed = b.phases((0, 39, {1: 1.0}))
    assert [
        n for n in analyse(run(b.graph(dense(0, 0.0), dense(1, 1.0)), listed)).metadata.notes if n.code == "not-in-step"
    ]
    assert not [n for n in analyse(run(graph, listed)).metadata.notes if n.code == "not-in-step"]


def test_many_such_parts_are_named_in_part() -> None:
    graph = b.graph(*(dense(i, 0.0, layer=f"l{i}") for i in range(3, 10)), dense(1, 1.0))
    (note,) = (n for n in analyse(run(graph)).metadata.notes if n.code == "not-in-step")
    assert note.message.count("part_") == 5
    assert ", ...," in note.message


def test_a_run_of_one_phase_says_nothing_of_it() -> None:
    out = analyse(run(b.phases((0, 39, {0: 2.0, 1: 1.0, 2: 5.0}))))
    # Two functions are called as recorded; the steps' kinds tell what counts, and 26 to 39 come after the window.
    assert flops(out) == 6 * ONE
    assert b.summary(out)["step_time_ns"]["reason"].startswith("median of 14 steps after")
    assert len(out.require("phases")) == 1


@pytest.mark.parametrize(("calls", "counted"), [(None, None), (1.0, ONE)])
def test_without_phases_ops_count_as_recorded(calls: float | None, counted: int | None) -> None:
    out = analyse(b.profile(b.graph(b.dense("a", 64, 64, calls_per_step=calls)), gpu_used=False))
    assert flops(out) == counted
    assert out.table("phases") is None


def test_ops_never_called_are_no_part_of_a_step_without_phases_too() -> None:
    out = analyse(b.profile(b.graph(dense(0, 0.0), dense(1, 1.0)), gpu_used=False))
    assert flops(out) == ONE
    (note,) = (n for n in out.metadata.notes if n.code == "not-in-step")
    assert note.message.startswith("the counted steps do not call part_0, ")


def test_the_phase_of_the_counted_steps_is_the_one_that_is_reported() -> None:
    starts = [1000 * i for i in range(40)]
    marks = b.marks(starts, 900, "tcprobe_step")
    out = analyse(run(marks), Options(iter_start=5, iter_stop=9))
    assert [r["in_window"] for r in b.rows(out, "phases")] == [True, False]
    assert flops(out) == 2 * ONE  # part 0, called twice
    assert b.summary(out)["step_time_ns"]["value"] == 5
    (note,) = (n for n in out.metadata.notes if n.code == "not-in-step")
    assert "part_1, part_2" in note.message


def test_without_a_window_the_last_phase_counts() -> None:
    out = analyse(run(window=None))
    assert [r["in_window"] for r in b.rows(out, "phases")] == [False, True]
    assert [r["iter_start"] for r in b.rows(out, "phases")] == [2, 22]


def test_one_function_that_trains_two_models_is_two_parts() -> None:
    same = {"op": "train/MatMul", "function": "__inference_train_1"}
    other = {**same, "function": "__inference_train_2"}
    graph = b.graph(dense(1, 1.0, **same), dense(2, 5.0, **other))
    assert flops(analyse(run(graph))) == 6 * ONE


def test_functions_that_eager_parts_call_count_in_the_phases_that_call_them() -> None:
    graph = b.graph(dense(7, 0.0, calls_in_phases=[3.0, 0.0]), dense(8, 2.0, calls_in_phases=[None, 2.0]))
    out = analyse(run(graph))
    assert (row(out, 0)["flops"], row(out, 0)["at_least"]) == (3 * ONE, True)
    assert (row(out, 1)["flops"], row(out, 1)["at_least"], flops(out)) == (2 * ONE, False, 2 * ONE)


@pytest.mark.parametrize("text", ["[1.0]", "7", "[", '["x", {}]', "{}"])
def test_calls_in_other_phases_than_there_are_tell_nothing(text: str) -> None:
    out = analyse(run(b.graph(dense(0, 0.0), {**dense(1, 1.0), "calls_in_phases": text}, dense(2, 5.0))))
    assert row(out, 0)["flops"] == 2 * ONE


def test_a_phase_with_a_part_that_was_not_recorded_has_lower_bounds() -> None:
    phases = b.phases((0, 19, {0: 2.0, 5: 1.0}), (20, 39, {1: 1.0, 2: 5.0}))
    parts = [phases.values("parts")[0].replace('"key": 5', '"recorded": false, "key": 5'), phases.values("parts")[1]]
    out = analyse(run(phases.with_columns(parts=parts)))
    assert [(row(out, n)["flops"], row(out, n)["at_least"]) for n in (0, 1)] == [(2 * ONE, True), (6 * ONE, False)]


def test_a_bound_is_called_one() -> None:
    graph = b.graph(dense(0, 0.0, at_least=True), dense(1, 1.0), dense(2, 5.0, executes="unknown"))
    out = analyse(run(graph))
    assert (row(out, 0)["flops"], row(out, 0)["at_least"]) == (2 * ONE, True)
    assert (row(out, 1)["flops"], row(out, 1)["at_least"]) == (ONE, True)


def test_of_a_part_whose_calls_nobody_counted_no_flops_are_known() -> None:
    out = analyse(run(b.phases((0, 19, {0: None}), (20, 39, {1: 1.0, 2: 5.0}))))
    assert (row(out, 0)["flops"], row(out, 0)["at_least"]) == (None, False)
    out = analyse(run(b.phases((0, 19, {0: None, 1: 1.0}), (20, 39, {1: 1.0, 2: 5.0}))))
    assert (row(out, 0)["flops"], row(out, 0)["at_least"]) == (ONE, True)


def test_what_is_not_recorded_of_a_phase_is_unknown() -> None:
    out = analyse(run(b.graph(dense(1, 1.0))))
    assert (row(out, 0)["flops"], row(out, 0)["products"], row(out, 0)["at_least"]) == (None, None, False)
    assert row(out, 0)["step_ns"] == 5


@pytest.mark.parametrize(
    ("calls", "repeats", "recorded", "found"),
    [
        (5.0, 20.0, 0.0, 100.0),  # each call has 20 turns
        (5.0, None, None, 5.0),  # nobody counted turns
        (5.0, None, 7.0, 7.0),  # an older probe counted both at once
        (5.0, None, 0.0, 5.0),  # and that count is another phase's
    ],
)
def test_executions_are_calls_times_turns(
    calls: float, repeats: float | None, recorded: float | None, found: float
) -> None:
    graph = b.graph(dense(1, recorded, repeats=repeats))
    assert graph_of(graph, b.phases((0, 9, {1: calls})), 0).values("calls_per_step") == [found]


def test_ops_of_no_known_part_count_as_recorded() -> None:
    graph = b.graph(dense(None, 3.0), dense(9, 2.0), dense(9, 0.0), dense(0, 4.0))
    phases = b.phases((0, 9, {0: 1.0}), (10, 19, {1: 1.0}))
    assert graph_of(graph, phases, 1).values("calls_per_step") == [3.0, 2.0]


def test_steps_outside_all_phases_are_of_none_and_the_last_phase_never_ends() -> None:
    phases = b.phases((5, 9, {}), (12, 15, {}))
    numbers = np.array([0, 5, 9, 10, 12, 15, 99, np.nan])
    assert phase_rows(phases, numbers).tolist() == [-1, 0, 0, -1, 1, 1, 1, -1]


def test_throughput_is_of_the_phase() -> None:
    metrics = b.metrics((3, "throughput", 900.0, "img/s"), (30, "throughput", 60.0, "img/s"))
    profile = run(metrics)
    assert b.summary(analyse(profile))["throughput"]["value"] == 60
    early = b.metrics((3, "throughput", 900.0, "img/s"), (21, "throughput", 50.0, "img/s"))
    assert b.summary(analyse(run(early)))["throughput"]["value"] == 50, "none was logged in measured steps of the phase"


def test_steps_of_a_run_without_phases_are_all_but_warm_up() -> None:
    profile = b.profile(b.steps((0, 0, 9, "warm-up"), (1, 9, 5, "measured")))
    assert [mask.tolist() for mask in steps_by_phase(profile)] == [[False, True]]
    assert in_phase(profile, np.array([0, 1])).all()


MS = 1_000_000
EVEN = st.lists(st.integers(100, 290), min_size=1, max_size=80)


def both(lengths: list[float]) -> tuple[list[int], list[int]]:
    """Return the steps with an epoch's end, and those of a longer kind."""
    found = long_steps(np.arange(len(lengths)), np.array(lengths, dtype=np.float64))
    return np.flatnonzero(found[0]).tolist(), np.flatnonzero(found[1]).tolist()


def ends(lengths: list[float]) -> list[int]:
    return both(lengths)[0]


@pytest.mark.parametrize(
    ("lengths", "found"),
    [
        ([20] * 9 + [3600] + [20] * 9, [9]),  # one end: 180 times a step
        ([20] * 9 + [70] + [20] * 9, []),  # a stall of 3.5 steps, where it likes
        (([20] * 10 + [70]) * 4, [10, 21, 32, 43]),  # as long, and every eleventh
        (([20] * 10 + [55]) * 4, []),  # every eleventh, and not three times as long
        (([20] * 9 + [3600, 70]) * 3, [9, 20, 31]),  # what comes right after an end is slow too, and trains
        (([20] * 8 + [3600, 220]) * 2 + [20] * 20, [8, 9, 18, 19]),  # or holds the rest of it
        (([20] * 8 + [90, 80]) * 3, []),  # twice as long as the others two by two
        ([20, 20, 70, 20, 20, 20, 70, 20, 70, 20, 20], []),  # no distance in common
        (([20] * 10 + [70]) * 3 + [20] * 11, []),  # the fourth is short, so the place does not make them long
        ([20, 20, 3600], []),  # too few to call any typical
        ([20] * 6 + [float("nan")], []),
        ([float("nan")] * 6, []),
        ([0] * 8 + [50], []),
    ],
)
def test_what_is_an_end(lengths: list[float], found: list[int]) -> None:
    assert ends(lengths) == found


@pytest.mark.parametrize(
    ("lengths", "longer"),
    [
        (([20] * 2 + [70]) * 8, list(range(2, 24, 3))),  # every third step trains more: no epoch ends there
        (([20] * 2 + [3600]) * 8, list(range(2, 24, 3))),  # however much
        (([20] * 4 + [70]) * 4, [4, 9, 14, 19]),
        (([20] * 9 + [70]) * 4, [9, 19, 29, 39]),  # a tenth is not rare
        (([20] * 2 + [55]) * 8, []),  # within what steps vary
        ([20, 70] * 10, []),  # nor is any longer than three medians where every second one is
    ],
)
def test_what_is_common_is_a_kind_of_steps(lengths: list[float], longer: list[int]) -> None:
    assert both(lengths) == ([], longer)


@pytest.mark.parametrize("end", [58, 59])
def test_a_longer_kind_stays_one_beside_an_epochs_end(end: int) -> None:
    """An end right before a step of the longer kind, or in one."""
    lengths = ([20] * 4 + [700]) * 36
    lengths[end] = lengths[end + 60] = lengths[end + 120] = 9000
    assert both([float(length) for length in lengths]) == ([58, 118, 178] if end == 58 else [], list(range(4, 180, 5)))


def test_a_step_that_traced_again_is_called_that() -> None:
    rows = [(i, 1000 * i, 900 if i in (7, 20) else 20, "measured") for i in range(40)]
    seen = [{"name": "train.step", "at_ns": 7950}, {"name": "train.other", "at_ns": 12_010}, {"name": 3}, None]
    found = slow_steps(b.profile(b.steps(*rows), run={"retraces": seen}))
    # 12 traced too and is no longer for it; of 20 nobody knows more than its length
    assert [np.flatnonzero(one).tolist() for one in found] == [[20], [7], []]
    assert np.flatnonzero(found.left_out).tolist() == [7, 20]


def test_a_run_that_traces_again_all_the_time_is_slow() -> None:
    rows = [(i, 1000 * i, 900 if i % 4 == 3 else 20, "measured") for i in range(40)]
    seen = [{"name": "train.step", "at_ns": 1000 * i + 10} for i in range(3, 40, 4)]
    found = slow_steps(b.profile(b.steps(*rows), run={"retraces": seen}))
    assert [int(one.sum()) for one in found] == [0, 0, 10]


def test_what_traced_again_too_often_to_be_left_out_is_a_kind_of_steps_wherever_it_stands() -> None:
    at = (5, 12, 17, 24, 29)
    rows = [(i, 1000 * i, 900 if i in at else 20, "measured") for i in range(36)]
    seen = [{"name": "train.step", "at_ns": 1000 * i + 10} for i in at]
    found = slow_steps(b.profile(b.steps(*rows), run={"retraces": seen}))
    assert [np.flatnonzero(one).tolist() for one in found] == [[], [], list(at)]


def test_a_run_that_is_slow_every_so_often_is_slow() -> None:
    # 20 of 100 steps take 15 times a step, at no equal distance: that is how it trains.
    slow = Random(0).sample(range(100), 20)
    assert ends([300.0 if i in slow else 20.0 for i in range(100)]) == []


@given(EVEN)
def test_an_even_run_has_none(lengths: list[int]) -> None:
    assert ends([float(x) for x in lengths]) == []


@given(st.lists(st.one_of(st.just(None), st.integers(0, 10_000)), max_size=60))
def test_ends_are_long_and_fewer_than_the_others(lengths: list[int | None]) -> None:
    values = [float("nan") if x is None else float(x) for x in lengths]
    known = [x for x in values if x == x]
    found = ends(values)
    assert 2 * len(found) < max(1, len(known)) + 1
    if found:
        usual = float(np.median(known))
        assert all(values[i] > LONG * usual for i in found)
        rest = [x for i, x in enumerate(values) if x == x and i not in found]
        assert float(np.median(rest)) <= usual, "what is typical without them is no longer than with them"


@given(st.integers(11, 30), st.integers(3, 6), st.integers(9, 300))
def test_ends_of_an_even_run_are_found_and_nothing_else(per_epoch: int, epochs: int, times: int) -> None:
    lengths = [100.0 + 40.0 * ((7919 * i) % 11) / 11 for i in range(per_epoch * epochs)]
    planted = list(range(per_epoch - 1, per_epoch * epochs, per_epoch))
    for i in planted:
        lengths[i] *= times
    assert ends(lengths) == planted


def test_each_kind_is_compared_with_itself() -> None:
    # Under the profiler a step takes 100, outside it 20: the profiled ones are no ends, and the end at 12 is one.
    rows = []
    for i in range(30):
        kind = "profiled" if 5 <= i < 15 else "warm-up" if i < 2 else "after"
        rows.append((i, 0, (1200 if i == 12 else 100) if kind == "profiled" else 20, kind))
    profile = b.profile(b.steps(*rows))
    assert np.flatnonzero(slow_steps(profile).ends).tolist() == [12]


def test_few_steps_of_a_kind_are_compared_with_all() -> None:
    rows = [(i, 0, 3600 if i == 3 else 20, "profiled" if i in (2, 3) else "after") for i in range(20)]
    assert np.flatnonzero(slow_steps(b.profile(b.steps(*rows))).ends).tolist() == [3]


def test_warm_up_is_no_end() -> None:
    rows = [(i, 0, 3600 if i < 2 else 20, "warm-up" if i < 2 else "measured") for i in range(20)]
    assert not np.any(slow_steps(b.profile(b.steps(*rows))))


def test_where_threads_train_at_once_no_step_is_told_to_hold_an_end() -> None:
    profile = b.profile(b.steps(*((i, 0, 3600 if i == 9 else 20, "measured") for i in range(20))))
    note = Note("threads", "threads train at once", None, "note")
    assert np.flatnonzero(slow_steps(profile).ends).tolist() == [9]
    assert not np.any(slow_steps(profile.with_notes(note)))
