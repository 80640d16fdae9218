"""TC302, TC312, TC313, TC315, TC316: steps that are none, or not usual ones; loss scaling, and batches too small."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from msgspec.structs import asdict, replace

from tcprobe.rules.base import Says
from tcprobe.rules.run.base import Run
from tcprobe.rules.run.waiting import (
    Parts,
    bounded,
    by_work,
    main_work,
    named_work,
    of_step,
    saves,
    sends_later,
    start_pct,
    usual_step,
    waiting_of,
)
from tcprobe.schema.advice import LAUNCHES, Advice, AdviceKind, Concern, Where
from tcprobe.schema.statement import Both, Duration, Name, Share, Statement, say
from tcprobe.schema.waits import HOST_WORK, HostWork, Waiting

MOST_USED_PCT: Final = 50.0  # of the memory: beyond that twice the batch may not fit
LEAST_SMALL_PCT: Final = 10.0  # of the kernel time, in products that are too small
MOST_START_PCT: Final = 50.0  # of the waiting: from here on a usual step is likely to wait otherwise
LEAST_IDLE_PCT: Final = 25.0  # of the step: below that a larger batch gains little by waiting less
PER_STEP: Final[tuple[HostWork, ...]] = ("launch", "python")
"""What the host does once a step, whatever the batch."""
MARKED: Final = "Profile several steps after warm-up, each marked (tcprobe profile does)"
FIXED_SCALE: Final = (
    "Take a fixed loss scale, such as 1024, and watch the loss (too large a scale gives NaN). Keras 3: "
    "loss_scale_factor=1024.0 of the optimizer, with compile(auto_scale_loss=False). Keras 2: "
    "LossScaleOptimizer(optimizer, dynamic=False, initial_scale=1024)"
)


def _profile_later(kernels: int, ops: int, worst_op: str | None, worst_calls: int, **_: Any) -> Both:
    order = "Profile later steps, after warm-up: nothing else in this report is about a usual step"
    if worst_op is None:
        calls = "1 stretch" if ops == 1 else f"{ops:,} stretches"
        kind = f"{calls} of convolutions run in many ways, up to {worst_calls:,} one after the other"
        return Both(order, f"autotuning is inside, by the names of kernels: {kernels:,} in {kind}")
    each: Parts = (
        f"the step holds autotuning: {kernels:,} kernels tried for {ops:,} ops, in one call of ",
        Name(worst_op),
    )
    return Both(order, (*each, f" {worst_calls:,}"))


def _fix_scale(ops: int, ns: float, waiting_ns: float, **most: Any) -> Both:
    waits = (", and the GPU waits ", Duration(waiting_ns), " for the host to read the answer") if waiting_ns else ()
    looks = f"dynamic loss scaling looks at the gradients in {ops:,} ops, "
    return Both(FIXED_SCALE, (looks, Duration(ns), " a step", *waits, ": ", *of_step(" as far as it shows", **most)))


def _skip_warm_up(slow: int, slowest_ns: float, usual_ns: float, **_: Any) -> Both:
    first = "the first counted step takes " if slow == 1 else f"the first {slow} counted steps take up to "
    order = "Leave the first steps out (--iter-start), or start the profiler later"
    return Both(
        order, (first, Duration(slowest_ns), ", the others ", Duration(usual_ns), ": warm-up is in the figures")
    )


def _larger_batch(small_ns: float, waiting_ns: float, **f: Any) -> Both:
    holds = f"the workload holds {f['used_gb']:.1f} of {f['total_gb']:.1f} GB at most, {f['free_gb']:.1f} GB are free; "
    small = ("products too small to fill the GPU take ", Duration(small_ns)) if small_ns else ()
    waits = ("the GPU waits ", Duration(waiting_ns), " for what the host does once a step") if waiting_ns else ()
    why = (*small, *((" and ",) if small and waits else ()), *waits)
    order = "Take a larger batch, as long as memory lasts and training bears it"
    return Both(order, (holds, *why, ": at most ", *of_step("", **f), ", for the same number of samples"))


def _marks(steps: int | None) -> str:
    return f"the profile marks {'one step' if steps == 1 else 'no step'}"


def _profile_usual_steps(steps: int | None, start_pct: float, when: bool, **_: Any) -> Both:
    if not when:
        return Both(MARKED, f"{_marks(steps)}, and nothing tells when the GPU waits: start-up may be most of it")
    share: Parts = (
        Share(start_pct),
        " of the waiting is such as a first step has (loading kernels, tracing), or not told",
    )
    return Both(MARKED, (f"{_marks(steps)}, and ", *share, ": a usual step may wait less, and for something else"))


SAYS: Final[Says] = {
    "profile_later": _profile_later,
    "fix_scale": _fix_scale,
    "skip_warm_up": _skip_warm_up,
    "profile_steps": lambda steps, **_: Both(MARKED, f"{_marks(steps)}: warm-up may be in all figures"),
    "profile_usual_steps": _profile_usual_steps,
    "larger_batch": _larger_batch,
    "key_node": lambda times, **_: Both(
        "Choose a key node that runs once a step (tcprobe find-key-node): no figure of a step is of one",
        f"most ops run {times:,} times in what the key node counts as a step: an epoch, or several steps",
    ),
}


def tc302(run: Run) -> Iterator[Advice]:
    """Yield one item where the window holds autotuning."""
    tuning = run.tuning
    if tuning is None:
        return
    concern = replace(run.concern(tuning.share_pct, "kernel_time", tuning.sum_ns), at_most_ns=None)
    said: Statement[AdviceKind] = say(
        "profile_later",
        ops=tuning.ops,
        kernels=tuning.kernels,
        worst_op=tuning.worst_op,
        worst_calls=tuning.worst_calls,
    )
    yield Advice("TC302", said, concern, Where(op=tuning.worst_op))


def tc312(run: Run) -> Iterator[Advice]:
    """Yield one item where the ops of dynamic loss scaling are found and the length of a step is known."""
    found, waiting = run.facts.scaling, usual_step(run)
    if found is None or waiting is None or not run.steps:
        return
    spent, waits = run.in_step(found.ns), run.waits_in_step(found.waiting_ns)
    concern = saves(waiting, spent + min(waits, waiting.idle_ns), "loss scaling", found.ns / run.steps)
    said: Statement[AdviceKind] = say("fix_scale", ops=found.ops, ns=spent, waiting_ns=waits, **bounded(concern))
    drawn = frozenset([LAUNCHES]) | (waiting_of(*HOST_WORK) if waits else frozenset())
    yield Advice("TC312", said, concern, draws_on=drawn)


def tc313(run: Run) -> Iterator[Advice]:
    """Yield one item where first steps are slow, or where one step or none is marked.

    None where TC302 or TC301 says to profile later steps.
    """
    found = run.facts.warm_up
    if found is None or run.tuning is not None or "compile" in named_work(run):
        return
    if found.slow:
        yield Advice("TC313", say("skip_warm_up", **asdict(found)), _of_all(run))
    elif (found.steps is None or found.steps <= 1) and not sends_later(run):
        start = start_pct(run)
        usual = start is not None and start >= MOST_START_PCT
        kind: AdviceKind = "profile_usual_steps" if usual else "profile_steps"
        more = {"start_pct": start, "when": bool(by_work(run))} if usual else {}
        yield Advice("TC313", say(kind, steps=found.steps, **more), _of_all(run))


def _of_all(run: Run) -> Concern:
    return Concern(100.0, "step", None, None, run.step_ns, run.length)


def tc315(run: Run) -> Iterator[Advice]:
    """Yield one item where memory is free, and products are too small or the host is busy once a step."""
    memory, waiting = run.facts.memory, usual_step(run)
    if memory is None or memory.used_pct >= MOST_USED_PCT or waiting is None:
        return
    small = _small(run)
    waits = 0.0 if small else _waits(run, waiting)  # the item on waiting bounds that by itself
    if small or waits:
        concern = saves(waiting, small + waits, "small batch")
        used, total = memory.peak_bytes, memory.total_bytes
        sizes = {"used_gb": used / 1e9, "total_gb": total / 1e9, "free_gb": (total - used) / 1e9}
        said: Statement[AdviceKind] = say("larger_batch", **sizes, small_ns=small, waiting_ns=waits, **bounded(concern))
        yield Advice("TC315", said, concern, draws_on=waiting_of(*PER_STEP) if waits else frozenset())


def _small(run: Run) -> float:
    """Return the time of a step in products that are too small; 0 where that is little or unknown."""
    small = run.facts.small_ns
    if run.kernel_ns <= 0 or 100.0 * small < LEAST_SMALL_PCT * run.kernel_ns:
        return 0.0
    return min(run.in_step(small), run.busy_ns)


def _waits(run: Run, waiting: Waiting) -> float:
    """Return the time of a step that the GPU waits for work that the host does once a step; 0 where that is little."""
    if waiting.idle_pct < LEAST_IDLE_PCT:
        return 0.0
    return waiting.idle_ns * min(1.0, sum(pct for work, pct in main_work(run) if work in PER_STEP) / 100.0)


def tc316(run: Run) -> Iterator[Advice]:
    """Yield one item where most ops ran several times in what the key node counts as a step."""
    times = run.facts.epoch_steps
    if times is not None:
        yield Advice("TC316", say("key_node", times=times), _of_all(run))
