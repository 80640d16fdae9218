"""Runs side by side, worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from tcprobe.analysis import analyse
from tcprobe.analysis.compare.figures import change_of
from tcprobe.errors import UsageError
from tcprobe.report.compare.words import OTHER_CLOCKS, OTHER_LOAD, answer
from tcprobe.schema.columns import Table
from tcprobe.schema.comparison import Change, Side
from tcprobe.schema.profile import Profile
from tcprobe.schema.tables import CAUSES_OF_TIME, MEMORY_OPS, RANGES
from tests.analysis import builders as b
from tests.analysis.builders import FP32, OTHER, TC, UNKNOWN, dense, graph, marks, metrics, profile, steps
from tests.analysis.compare.builders import AFTER, BEFORE, figure, pair, row, run, timed


def test_sums_are_of_a_step_though_the_windows_differ() -> None:
    found = pair(run(*BEFORE, count=2), run(*AFTER, count=5))
    assert found.per_step
    # before: 400 + 100 in a step, after: 150 + 100 + 100
    kernel_time = figure(found, "kernel_time_ns")
    assert [side.value for side in kernel_time.sides] == [500.0, 350.0]
    assert (kernel_time.changes[0].difference, kernel_time.changes[0].delta) == ("less", -150.0)
    assert kernel_time.changes[0].pct == pytest.approx(-30.0)
    assert [side.value for side in figure(found, "kernels").sides] == [2.0, pytest.approx(3.0)]
    share = figure(found, "tc_kernel_time_pct")
    assert [side.value for side in share.sides] == [0.0, pytest.approx(100.0 * 150 / 350)]
    assert (share.changes[0].difference, share.changes[0].pct, share.less_is_better) == ("more", None, False)


def test_layers_ops_and_kernels_are_joined_and_what_a_run_lacks_is_0() -> None:
    found = pair(run(*BEFORE), run(*AFTER))
    kernels = {one.name: (one.sides, one.changes, one.launches, one.uses_tc) for one in found.kernels}
    assert kernels == {
        FP32: ((400.0, 0.0), (-400.0,), (1.0, 0.0), ("no", None)),
        TC: ((0.0, 150.0), (150.0,), (0.0, 1.0), (None, "yes")),
        OTHER: ((100.0, 200.0), (100.0,), (1.0, 2.0), ("no", "no")),
    }
    assert [one.name for one in found.kernels] == [FP32, TC, OTHER]  # by the size of the change
    conv = row(found.ops, "model/conv/Conv2D")
    assert (conv.op_type, conv.sides, conv.changes, conv.tc_ns) == ("Conv2D", (400.0, 150.0), (-250.0,), (0.0, 150.0))
    assert row(found.layers, "model/conv").sides == (400.0, 150.0)
    for rows in (found.layers, found.ops, found.kernels):
        assert sum(one.changes[0] or 0.0 for one in rows) == -150.0


def test_kernels_that_took_the_place_of_others_are_told_by_op() -> None:
    (renamed,) = pair(run(*BEFORE), run(*AFTER)).renamed
    assert (renamed.op, renamed.before, renamed.after) == ("model/conv/Conv2D", (FP32,), (TC,))
    assert (renamed.before_ns, renamed.after_ns, renamed.run) == (400.0, 150.0, 1)


def test_kernels_of_ops_that_changed_name_are_told_by_layer() -> None:
    other = run(*AFTER)
    fused = other.require("ops").with_columns(op_type=["_FusedConv2D" if t == "Conv2D" else t for t in types(other)])
    kernels = other.require("kernels")
    named = ["_FusedConv2D" if t == "Conv2D" else t for t in kernels.values("op_type")]
    found = pair(run(*BEFORE), other.with_tables(fused, kernels.with_columns(op_type=named)))
    assert [(one.op, one.before, one.after) for one in found.renamed] == [("model/conv", (FP32,), (TC,))]


def types(one: Profile) -> list[str]:
    return [str(value) for value in one.require("ops").values("op_type")]


def test_a_run_without_steps_makes_all_sums_those_of_captures() -> None:
    whole = run(*AFTER, count=3)
    stray = whole.require("launches").with_columns(iteration=np.full(9, np.nan))
    unmarked = analyse(profile(stray, whole.require("op_details"), whole.require("devices"), gpu_used=True))
    found = pair(run(*BEFORE, count=2), unmarked)
    assert not found.per_step
    assert [side.value for side in figure(found, "kernel_time_ns").sides] == [1000.0, 1050.0]  # 2 x 500, 3 x 350
    assert [note.code for note in found.notes] == ["compared-whole"]
    assert "run 1" in found.notes[0].message
    assert "run 0" not in found.notes[0].message


def test_bounds_that_are_open_on_the_same_side_overlap() -> None:
    assert change_of(Side(None, 54.9), Side(None, 28.2)) == Change("cannot tell", why="ranges overlap")
    assert change_of(Side(None, None, 30.0), Side(None, 54.9)) == Change("more")


def test_mean_flops_of_steps_whose_shapes_change_differ_though_their_ranges_overlap() -> None:
    def changing(batch: int) -> Profile:
        shapes = ((batch, [0, 2]), (8, [1]))
        rows = (dense("head", 64, 128, batch=size, called_in=steps, part=0) for size, steps in shapes)
        return analyse(profile(graph(*rows), marks([0, 1000, 2000], 900), gpu_used=False))

    found = figure(pair(changing(32), changing(17)), "flops_per_step")
    assert [side.value for side in found.sides] == [24 * 2 * 64 * 128, 14 * 2 * 64 * 128]
    assert (found.changes[0].difference, found.changes[0].pct) == ("less", pytest.approx(-100 * 10 / 24))


def test_ranges_that_overlap_tell_nothing() -> None:
    # with a kernel of unknown class: 0 to 50 %; against 43 %, and against 100 %
    unsure = run((OTHER, 1, 0, 200), (UNKNOWN, -1, 500, 200))
    overlapping = figure(pair(unsure, run(*AFTER)), "tc_kernel_time_pct")
    assert (overlapping.sides[0].low, overlapping.sides[0].high) == (0.0, 50.0)
    assert (overlapping.changes[0].difference, overlapping.changes[0].why) == ("cannot tell", "ranges overlap")
    assert overlapping.changes[0].delta is None
    apart = figure(pair(unsure, run((TC, 0, 0, 200))), "tc_kernel_time_pct").changes[0]
    assert (apart.difference, apart.delta) == ("more", None)
    assert row(pair(unsure, run(*AFTER)).kernels, UNKNOWN).tc_ns == (None, 0.0)


@pytest.mark.parametrize(
    ("first", "other", "expected"),
    [
        ([100, 101, 102, 103] * 3, [100, 101, 102, 103] * 4, ("within noise", None)),
        ([100, 101, 102, 103] * 3, [103, 101, 100, 102] * 3, ("within noise", None)),
        ([100, 101, 102, 103] * 3, [150, 153, 151, 152] * 3, ("slower", None)),
        ([150, 153, 151, 152] * 3, [100, 102, 101, 103] * 3, ("faster", None)),
        ([100] * 7, [150] * 20, ("cannot tell", "few steps")),
        ([100] * 20, [150] * 7, ("cannot tell", "few steps")),
    ],
)
def test_whether_steps_differ(first: list[int], other: list[int], expected: tuple[str, str | None]) -> None:
    change = figure(pair(timed(first), timed(other)), "step_time_ns").changes[0]
    assert (change.difference, change.why) == expected
    assert (change.interval is None) == (expected[0] == "cannot tell")


def test_steps_that_differ_where_nothing_else_does_are_called_so() -> None:
    slow, fast = timed([150, 153, 151, 152] * 3), timed([100, 101, 102, 103] * 3)
    assert [note.code for note in pair(fast, slow).notes] == ["nothing-else-differs"]
    changed = slow.with_metadata(precision="mixed_float16")
    assert "nothing-else-differs" not in {note.code for note in pair(fast, changed).notes}
    assert "nothing-else-differs" not in {note.code for note in pair(fast, fast).notes}
    (of_three,) = [note for note in pair(fast, changed, slow).notes if note.code == "nothing-else-differs"]
    assert "the steps of run 2 and run 0 differ" in of_three.message  # run 1 has another precision


@pytest.mark.parametrize(
    ("first", "other", "codes"),
    [
        ("DLProf 1.8.0 (build 2)", "DLProf 0.16.0", []),
        ("TensorFlow's profiler (XSpace)", "the profiler of TensorFlow or JAX (XSpace)", []),
        ("Nsight Systems 2026.2.1", "Nsight Systems (nsys stats)", []),
        ("Nsight Systems 2026.2.1", "DLProf 1.8.0", ["other-profilers"]),
        (None, "DLProf 1.8.0", []),
    ],
)
def test_versions_of_a_profiler_are_no_other_profiler(first: str | None, other: str, codes: list[str]) -> None:
    assert [note.code for note in pair(run(*BEFORE, profiler=first), run(*BEFORE, profiler=other)).notes] == codes


def test_steps_under_the_profiler_are_held_against_their_like_alone() -> None:
    outside, under = timed([100, 101, 102] * 4), timed([120, 121, 122] * 4, "profiled")
    change = figure(pair(outside, under), "step_time_ns").changes[0]
    assert (change.difference, change.why, change.delta) == ("cannot tell", "steps differ", 20.0)
    slower = figure(pair(under, timed([150, 151, 152] * 4, "profiled")), "step_time_ns")
    assert slower.changes[0].difference == "slower"
    assert slower.changes[0].interval is not None
    assert slower.changes[0].interval.steps == "under the profiler"
    assert slower.sides[0].reason == "median of 12 steps under the profiler"


def test_few_steps_outside_the_profiler_give_way_to_those_under_it() -> None:
    def both(outside: int, under: int) -> Profile:
        lengths = [(under + i % 3, "profiled") for i in range(12)] + [(outside + i % 2, "after") for i in range(4)]
        starts = [sum(ns for ns, _ in lengths[:i]) for i in range(len(lengths))]
        return analyse(
            profile(steps(*((i, at, ns, kind) for i, (at, (ns, kind)) in enumerate(zip(starts, lengths, strict=True)))))
        )

    found = figure(pair(both(100, 120), both(100, 150)), "step_time_ns")
    assert [side.value for side in found.sides] == [121.0, 151.0]
    assert found.changes[0].difference == "slower"


def test_a_single_length_tells_nothing_of_noise() -> None:
    one = analyse(profile(run(*BEFORE, count=1).require("step_marks"), run(*BEFORE, count=1).require("launches")))
    change = figure(pair(one, one), "step_time_ns").changes[0]
    assert (change.difference, change.why, change.delta) == ("cannot tell", "one figure", 0.0)


def test_throughput_is_judged_by_what_was_logged() -> None:
    def logged(speed: float, count: int = 12) -> Profile:
        rows = [(i, 100 * i, 100, "measured") for i in range(count)]
        speeds = [(i, "throughput", speed + i % 3, "img/s") for i in range(count)]
        return analyse(profile(steps(*rows), metrics(*speeds), gpu_used=False))

    found = figure(pair(logged(500.0), logged(600.0)), "throughput")
    assert (found.unit, found.less_is_better) == ("img/s", False)
    assert [side.value for side in found.sides] == [501.0, 601.0]
    assert found.changes[0].difference == "more"
    assert found.changes[0].interval is not None
    assert figure(pair(logged(500.0), logged(500.0)), "throughput").changes[0].difference == "within noise"
    few = figure(pair(logged(500.0), logged(600.0, 7)), "throughput").changes[0]
    assert (few.difference, few.why) == ("cannot tell", "few steps")


def test_what_was_logged_stands_side_by_side() -> None:
    one = profile(metrics((0, "acc", 0.1, ""), (0, "g_loss", 3.0, ""), (1, "g_loss", 2.0, ""), (5, "g_loss", 1.0, "")))
    two = profile(metrics((1, "g_loss", 2.5, ""), (1, "g_loss", 3.5, ""), (0, "g_loss", 4.0, ""), (0, "fid", 9.0, "")))
    found = pair(analyse(one), analyse(two)).losses
    assert [loss.name for loss in found] == ["g_loss", "acc", "fid"]
    # logged twice in step 1 of the second run: the mean; step 5 in the first run alone
    assert (found[0].steps, found[0].values, found[0].last) == ((0, 1), ((3.0, 2.0), (4.0, 3.0)), (1.0, 3.0))
    assert (found[1].steps, found[1].values, found[1].last) == ((), ((), ()), (0.1, None))


def test_a_figure_that_ends_as_nan_has_the_step_since_which() -> None:
    nan = float("nan")
    one = profile(metrics((0, "loss", 3.0, ""), (4, "loss", nan, ""), (5, "loss", nan, "")))
    two = profile(metrics((0, "loss", nan, ""), (4, "loss", 2.0, "")))
    (loss,) = pair(analyse(one), analyse(two)).losses
    assert loss.since == (4, None)
    assert repr(loss.last) == "(nan, 2.0)"


def test_settings_that_differ_and_notes() -> None:
    record = {"environment": {"XLA_FLAGS": "-a", "SAME": "1"}, "driver": "570.1", "wall_ns": 10}
    one = run(
        *BEFORE, command=("train.py", "--batch", "8"), profiler="TensorFlow's profiler (XSpace)", xla=False, run=record
    )
    changed = {"environment": {"SAME": "1", "NVIDIA_TF32_OVERRIDE": "0"}, "driver": "570.1", "wall_ns": 15}
    two = run(*BEFORE, command=("train.py", "--batch", "16"), profiler="Nsight Systems 2026", xla=True, run=changed)
    two = two.with_tables(two.require("devices").with_columns(name=["NVIDIA H100"]))
    found = pair(one, two)
    assert dict(found.settings) == {
        "gpu": ("Tesla V100-SXM2-16GB", "NVIDIA H100"),
        "xla": ("no", "yes"),
        "profiler": ("TensorFlow's profiler (XSpace)", "Nsight Systems 2026"),
        "command": ("train.py --batch 8", "train.py --batch 16"),
        "environment.XLA_FLAGS": ("-a", None),
        "environment.NVIDIA_TF32_OVERRIDE": (None, "0"),
    }
    assert [note.code for note in found.notes] == ["other-gpus", "other-profilers"]
    assert figure(found, "wall_ns").changes[0].pct == pytest.approx(50.0)


def test_times_of_causes_are_grouped_and_the_mean_over_gpus() -> None:
    one = caused((0, "off", "tf32", 600), (0, "off", "library", 200), (1, "off", "tf32", 400), (1, "idle", "idle", 100))
    two = caused((0, "well", "tc_well", 300))
    found = pair(one, two)
    # (600 + 200 + 400) / 2 GPUs / 2 steps, and 100 / 2 / 2
    off, idle, well = (figure(found, f"cause_{group}_ns") for group in ("off", "idle", "well"))
    assert [side.value for side in off.sides] == [300.0, 0.0]
    assert [side.value for side in idle.sides] == [25.0, 0.0]
    assert [side.value for side in well.sides] == [0.0, 150.0]
    assert (off.less_is_better, well.less_is_better) == (True, None)


def caused(*rows: tuple[int | None, str, str, int]) -> Profile:
    """A run whose time is of these causes: (device, group, cause, ns of its two steps)."""
    made = [{"device": d, "group": g, "cause": c, "split_ns": ns, "sum_ns": ns} for d, g, c, ns in rows]
    return run(*BEFORE, count=2).with_tables(Table.from_rows(CAUSES_OF_TIME, made))


@pytest.mark.parametrize(
    ("unknown", "expected"),
    [
        # 200 of known cause against 600: of 300 that are unknown none makes 600
        (300, ("more", 200.0)),
        # up to 600 of it
        (400, ("cannot tell", None)),
    ],
)
def test_time_of_unknown_cause_may_be_of_any(unknown: int, expected: tuple[str, float | None]) -> None:
    one = caused((0, "off", "tf32", 200), (0, "unknown", "op_unknown", unknown), (0, "idle", "idle", 100))
    found = pair(one, caused((0, "off", "tf32", 600), (0, "idle", "idle", 300)))
    off, idle = (figure(found, f"cause_{group}_ns").changes[0] for group in ("off", "idle"))
    assert (off.difference, off.delta) == expected
    assert (idle.difference, idle.delta) == ("more", 100.0)  # no kernel is idle time


def test_gpus_that_a_report_adds_up_are_added_up_in_all_runs() -> None:
    two_gpus = caused((0, "off", "tf32", 400), (1, "off", "tf32", 600))
    found = figure(pair(two_gpus, caused((None, "off", "tf32", 1000))), "cause_off_ns")
    assert [side.value for side in found.sides] == [500.0, 500.0]  # 1000 / 2 steps
    assert found.changes[0].difference == "same"


def test_copies_that_a_source_does_not_have_are_missing_and_no_zero() -> None:
    copied = caused((0, "off", "tf32", 400), (0, "copy", "copy", 100))
    found = figure(pair(copied, caused((0, "off", "tf32", 400))), "cause_copy_ns")
    assert [side.value for side in found.sides] == [50.0, None]
    assert found.changes[0].difference == "not known"


def test_a_gpu_without_a_name_is_no_other_gpu() -> None:
    one, two = run(*BEFORE), run(*BEFORE)
    nameless = two.with_tables(two.require("devices").with_columns(name=[None]))
    assert "other-gpus" not in {note.code for note in pair(one, nameless).notes}


def test_a_report_of_functions_alone_is_joined_by_function() -> None:
    """No types of ops and no arguments of kernels, as in DLProf's kernel report."""
    whole = run(("void ns::f<float, 1>(float*)", 0, 0, 400), ("void ns::f<float, 2>(float*)", 1, 500, 100))
    short = run(("f", 0, 0, 400), ("f", 1, 500, 100))
    short = pair(short, short).profiles[0]
    untyped = short.with_tables(
        *(short.require(name).with_columns(op_type=[None] * len(short.require(name))) for name in ("ops", "kernels"))
    )
    found = pair(whole, untyped)
    assert [(one.name, one.sides) for one in found.kernels] == [("f", (500.0, 500.0))]
    assert {(one.op_type, one.changes) for one in found.ops} == {("Conv2D", (0.0,)), ("Relu", (0.0,))}
    assert found.renamed == ()


def test_steps_of_no_length_have_no_ratio() -> None:
    """A step of 0 ns is a clock that did not tick."""
    found = figure(pair(timed([100] * 9), timed([100] * 8 + [0])), "step_time_ns").changes[0]
    assert (found.difference, found.why) == ("cannot tell", "no ratio")


def test_copies_of_the_counted_steps_alone_count() -> None:
    def copied(*iterations: int) -> Profile:
        rows = [
            {"device": 0, "stream": 1, "start_ns": 10 + i, "duration_ns": 5, "kind": "MemcpyH2D", "iteration": i}
            for i in iterations
        ]
        base = run(*BEFORE, count=4)
        raw = profile(*(base.require(n) for n in ("launches", "op_details", "step_marks", "devices")))
        return analyse(raw.with_tables(Table.from_rows(MEMORY_OPS, rows)))

    found = pair(copied(0, 1, 1, 2, 3), copied(1, 2))
    counted = [side.value for side in figure(found, "copies").sides]
    window = found.profiles[0].metadata.window
    assert window.first is not None
    assert window.last is not None
    held = sum(window.first <= i <= window.last for i in (0, 1, 1, 2, 3)) / (window.last - window.first + 1)
    assert counted[0] == pytest.approx(held)


def test_three_runs_are_each_held_against_the_first() -> None:
    found = pair(run(*BEFORE), run(*AFTER), run(*BEFORE))
    assert [change.delta for change in figure(found, "kernel_time_ns").changes] == [-150.0, 0.0]
    assert row(found.kernels, FP32).changes == (-400.0, 0.0)
    assert {one.run for one in found.renamed} == {1}


def test_one_run_cannot_be_compared() -> None:
    with pytest.raises(UsageError, match="one run alone"):
        pair(run(*BEFORE))


def test_autotuning_and_cut_runs_are_named() -> None:
    cut = replace(run(*BEFORE), metadata=replace(run(*BEFORE).metadata, partial=True))
    assert [note.code for note in pair(run(*BEFORE), cut).notes] == ["partial-runs"]


def clocked(mhz: float | None, name: str = "Tesla V100-SXM2-16GB", basis: str | None = "window") -> Profile:
    made = run(*BEFORE)
    columns = {"sm_clock_mhz": [mhz], "name": [name], "state_basis": [basis]}
    return made.with_tables(made.require("devices").with_columns(**columns))


def test_clocks_that_differ_may_be_why_times_do() -> None:
    """1,530 MHz to 1,230 MHz is a fifth; to 1,500 a fiftieth, as of any two runs; of another GPU it says nothing.

    Nor do samples of a whole run, which idled too, or of which nothing tells (as of an earlier baseline).
    """
    found = pair(clocked(1530.0), clocked(1230.0))
    assert dict(found.settings) == {"SM clock": ("1,530 MHz", "1,230 MHz")}
    (note,) = (note for note in found.notes if note.code == "clocks-differ")
    assert "run 0 1,530 MHz, run 1 1,230 MHz" in note.message
    others = [clocked(1500.0), clocked(None), clocked(500.0, "NVIDIA H100")]
    for other in (*others, clocked(500.0, basis="run"), clocked(500.0, basis=None)):
        found = pair(clocked(1530.0), other)
        assert "clocks-differ" not in {note.code for note in found.notes}
        assert "SM clock" not in dict(found.settings)
    lengths = [100, 101] * 20
    one, two = timed(lengths), timed([2 * ns for ns in lengths])
    pairs = [one.with_tables(clocked(1530.0).require("devices")), two.with_tables(clocked(1230.0).require("devices"))]
    assert OTHER_CLOCKS in answer(pair(*pairs), ("A", "B"))
    assert OTHER_LOAD not in answer(pair(*pairs), ("A", "B")) and OTHER_LOAD in answer(pair(one, two), ("A", "B"))


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
