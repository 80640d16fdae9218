"""What items promise: never more than the step, and bounds that hold whatever GPUs and streams ran the kernels."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tcprobe.analysis.summary.figures import figure
from tcprobe.hardware import find_gpu, load_gpus
from tcprobe.rules.run.base import (
    ChainWork,
    Facts,
    LayoutWork,
    LossScaling,
    MemoryUse,
    Misaligned,
    Run,
    Tail,
    TinyKernels,
    TopKernel,
    WarmUp,
)
from tcprobe.schema.advice import Where
from tcprobe.schema.columns import Table
from tcprobe.schema.finding import Range
from tcprobe.schema.kinds import BLOCKERS, CAUSES, CHANGES, SIZE_ADVICE
from tcprobe.schema.tables import SUMMARY, USES_TC
from tcprobe.schema.waits import HOST_WORK, STEP_LENGTHS, StepLength, Tuning, Waiting
from tcprobe.schema.whatif import WhatIf
from tests.rules.run.builders import MS, found, off, rule, saved, size, subject, waited, waits, what_if
from tests.support import examples

PREDICTED = ("mixed_precision", "use_float16", "allow_tf32", "halve_precision")
"""What takes its saving from a what-if alone."""
TIMES = st.floats(0, 1e4, allow_nan=False)
OPS = st.builds(
    off,
    st.sampled_from(list(BLOCKERS)),
    TIMES,
    st.sampled_from(["a", "b"]),
    st.sampled_from(["Conv2D", "MatMul"]),
    dtype=st.sampled_from([None, "float32", "bfloat16", "float64"]),
)


@st.composite
def sizes(draw: st.DrawFn) -> dict[str, object]:
    low, likely, high = sorted(draw(st.floats(-1e3, 1e4, allow_nan=False)) for _ in range(3))
    more = saved(low, likely, high, draw(st.floats(0, 100))) if draw(st.booleans()) else {}
    row = size(draw(st.sampled_from(["a", "b"])), draw(st.sampled_from(list(SIZE_ADVICE))), ms=draw(st.none() | TIMES))
    return {**row, **more}


WHERE = st.sampled_from([Where(), Where("a", "a/Conv2D"), Where(op="x")])
CAUSED = st.none() | st.sampled_from(list(CAUSES))


@st.composite
def facts(draw: st.DrawFn) -> Facts:
    ns = TIMES.map(lambda ms: ms * MS)
    counts = st.floats(0, 1e5)
    tops = st.builds(TopKernel, st.just("k"), ns, st.floats(0, 100), CAUSED, st.sampled_from(USES_TC), WHERE)
    return Facts(
        draw(st.none() | st.builds(TinyKernels, counts, counts, ns, st.booleans())),
        draw(st.none() | st.builds(LayoutWork, ns, ns, WHERE, st.none(), ns)),
        draw(st.none() | st.builds(LossScaling, st.integers(1, 99), ns, ns)),
        draw(st.none() | st.builds(WarmUp, st.none() | st.integers(0, 9), st.integers(0, 3), ns, ns)),
        draw(st.none() | tops),
        draw(st.none() | st.builds(MemoryUse, st.floats(1, 1e9), st.just(1e9))),
        draw(ns),
        draw(st.none() | st.integers(2, 99)),
        draw(st.none() | st.sampled_from(["environment", "asked"])),
        chains=draw(st.none() | chains()),
        tail=draw(
            st.none() | st.builds(Tail, ns, st.just("k"), st.floats(0.1, 9), st.just(2), st.just("128x64"), WHERE)
        ),
        misaligned=draw(st.none() | misaligned()),
    )


@st.composite
def misaligned(draw: st.DrawFn) -> Misaligned:
    ns = draw(TIMES) * MS
    return Misaligned(ns, ns * draw(st.floats(0, 1)), "k", 40, "a100-sxm-80", 1)


@st.composite
def chains(draw: st.DrawFn) -> ChainWork:
    ns = draw(TIMES) * MS
    moved = draw(st.none() | st.floats(0, 1e12))
    again = None if moved is None else moved * draw(st.floats(0, 1))
    return ChainWork(ns, ns * draw(st.floats(0, 1)), 9, 3, ("copy", "elementwise"), moved, again, draw(WHERE))


@st.composite
def what_ifs(draw: st.DrawFn) -> WhatIf:
    low, likely, high, spent = sorted(draw(st.floats(0, 1e4)) for _ in range(4))
    change = draw(st.sampled_from(list(CHANGES)))
    place = {"layer": "a", "dimension": "filters", "size": 63} if change in ("change_size", "slice_filters") else {}
    return what_if(change, low, likely, high, spent_ns=spent * MS, may_cost=draw(st.booleans()), **place)


@st.composite
def runs(draw: st.DrawFn) -> Run:
    step = draw(st.floats(1, 1e6))
    busy = step * draw(st.floats(0, 1))
    gpus = draw(st.integers(1, 8))
    ops = sorted(draw(st.lists(OPS, max_size=5)), key=lambda op: -op.weight)
    return subject(
        *ops,
        total=sum(op.weight for op in ops) * draw(st.floats(1, 3)),
        measured=draw(st.booleans()),
        unnamed_ns=(unnamed := draw(TIMES) * MS),
        kernel_ns=unnamed + draw(TIMES) * MS,
        sizes=tuple(draw(st.lists(sizes(), max_size=4))),
        waiting=Waiting(step * MS, draw(st.sampled_from(list(STEP_LENGTHS))), busy * MS, (step - busy) * MS),
        waits=tuple(draw(st.lists(st.builds(waited, TIMES, st.sampled_from(list(HOST_WORK))), max_size=3))),
        tuning=draw(st.none() | st.just(Tuning(2, 90, 5.0 * MS, 50.0, "conv", 45))),
        gpu=draw(st.none() | st.sampled_from(load_gpus())),
        gpus=gpus,
        busiest=draw(st.floats(1 / gpus, 1)),
        steps=draw(st.none() | st.floats(1, 100)),
        step_ns=step * MS,
        launching_ns=(step - busy) * MS * draw(st.floats(0, 1)),
        what_ifs=tuple(draw(st.lists(what_ifs(), max_size=3))),
        facts=draw(facts()),
    )


@settings(max_examples=examples(75))
@given(runs())
def test_no_item_promises_more_than_the_step(run: Run) -> None:
    waiting = run.waiting
    assert waiting is not None
    waited_for = [item.saves_ns or 0.0 for item in found(run) if item.kind == "feed_gpu"]
    assert sum(waited_for) <= waiting.idle_ns * (1 + 1e-9)
    for item in found(run):
        most = [item.concern.at_most_ns, *([item.saving.ns.high, item.saving.ns.mid] if item.saving else [])]
        assert all(ns is None or ns <= waiting.step_ns * (1 + 1e-9) for ns in most)
        if item.kind == "feed_gpu":
            assert 0 <= (item.saves_ns or 0) <= waiting.idle_ns * (1 + 1e-9)
        elif most[0] is not None:
            whole = item.concern.bound in ("launches", "loss scaling", "small batch")
            assert 0 <= most[0] <= (waiting.step_ns if whole else run.busy_ns) * (1 + 1e-9)
        if item.saving is not None and item.kind in PREDICTED:
            assert 0 <= item.saving.ns.low <= item.saving.ns.mid <= item.saving.ns.high
        assert item.step_pct is None or item.step_pct <= 100 * (1 + 1e-9)


def at_most(given: Run, code: str = "TC305") -> float | None:
    (item,) = rule(code).check(given)
    return item.concern.at_most_ns


def test_kernels_of_several_steps_and_gpus_are_those_of_one() -> None:
    # 40 ms over 2 steps on 2 GPUs that share them 3 to 1: 15 ms of a step on the busier one
    run = {"steps": 2.0, "gpus": 2, "busiest": 0.75, "waiting": waits(100, 40)}
    assert at_most(subject(off("gpu", 40), **run)) == pytest.approx(15 * MS)


def test_kernels_that_overlap_save_no_more_than_the_gpu_is_busy() -> None:
    assert at_most(subject(off("gpu", 80), total=160.0 * MS, waiting=waits(100, 50))) == 50 * MS


def test_without_a_count_of_steps_the_share_of_the_busy_time_is_the_bound() -> None:
    assert at_most(subject(off("gpu", 40), steps=None, waiting=waits(100, 50))) == 20 * MS


def test_of_communication_nothing_is_promised() -> None:
    """Its kernels also wait for the slowest GPU."""
    top = TopKernel("ncclDevKernel_AllReduce", 42.0 * MS, 42.0, None, "no", Where(), None, communicates=True)
    run = subject(facts=Facts(top=top), kernel_ns=100.0 * MS)
    assert at_most(run, "TC314") is None


def test_without_a_clock_nothing_is_promised() -> None:
    (item,) = rule("TC305").check(subject(off("gpu", 40), waiting=None))
    assert (item.concern.at_most_ns, item.step_pct, item.concern.kernel_ns) == (None, None, 40 * MS)


@pytest.mark.parametrize(
    ("gpu", "left"),
    [("v100-sxm2", 15.7 / 125.3), ("t4", 8.1 / 65), ("a100-sxm-40", 19.5 / 312), ("p100", 0.0), (None, 0.0)],
)
def test_the_peak_rates_tell_what_tensor_cores_leave(gpu: str | None, left: float) -> None:
    run = subject(off("dtype", 40, dtype="float32"), gpu=find_gpu(gpu) if gpu else None)
    assert at_most(run, "TC303") == pytest.approx(40 * MS * (1 - left), rel=0.01)
    (item,) = rule("TC303").check(run)
    assert item.concern.bound == ("peak rates" if left else "kernel time")


def test_a_prediction_is_cut_to_what_the_step_has() -> None:
    (item,) = rule("TC306").check(subject(sizes=(size("a", "change", ms=30, **saved(-1, 70, 200, 70.0)),),
                                          waiting=waits(100, 50)))  # fmt: skip
    assert item.saving is not None
    assert item.saving.ns == Range(-1.0 * MS, 50.0 * MS, 50.0 * MS)
    assert item.step_pct == 50.0


@pytest.mark.parametrize(("basis", "length", "most"), [
    ("reported", "capture", None),  # DLProf's simple mode: kernel time beside a wall clock of the whole process
    ("reported", "reported", 75.0 * MS),
    ("measured", "capture", 75.0 * MS),
])  # fmt: skip
def test_sums_that_the_clock_of_the_capture_does_not_hold_promise_nothing(
    basis: str, length: StepLength, most: float | None
) -> None:
    given = subject(unnamed_ns=75.0 * MS, kernel_ns=100.0 * MS, waiting=waits(200, 100, length))
    given.profile = given.profile.with_tables(Table.from_rows(SUMMARY, [figure("kernel_time_ns", 100.0 * MS, basis)]))
    (item,) = rule("TC309").check(given)
    assert (item.concern.share_pct, item.concern.at_most_ns, item.step_pct) == (75.0, most, most and 37.5)
