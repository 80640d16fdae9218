"""TC302, TC312, TC313, TC315, TC316: steps that are none, or not usual ones; loss scaling, and batches too small.

TC321: a loss that ends as NaN or an infinity: since which step, after which update, and what to do about it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from msgspec.structs import asdict, replace

from tcprobe.formatting import duration, many, shorten, whole_percent
from tcprobe.rules.run.base import Run, RunSays
from tcprobe.rules.run.waiting import (
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
from tcprobe.rules.words import NAME_WIDTH, Act
from tcprobe.schema.advice import LAUNCHES, Advice, AdviceKind, Concern, Where
from tcprobe.schema.statement import Statement, say
from tcprobe.schema.waits import HOST_WORK, HostWork, Waiting

LARGEST_HALF: Final = 65_504
"""The largest finite float16. Source: IEEE 754-2008, binary16."""
_IN_FLOAT32: Final = "train as many steps in float32 with the same seed"
_OVERFLOW: Final = f"find whether float16 overflows ({LARGEST_HALF:,})"
_HALF: Final[dict[str | None, tuple[str, ...]]] = {
    "dynamic": (f"find what overflows float16 ({LARGEST_HALF:,}) in the forward pass",),
    "none": (_OVERFLOW, "the forward pass, or a scale that the script applies", _IN_FLOAT32),
    None: (_OVERFLOW, _IN_FLOAT32),
}
_OTHER: Final = ("the learning rate", "the data", "a division or logarithm of 0")
_NAME: Final = 16  # columns of a loss


def _finite_loss(_: Advice, name: str, value: str, step: int | None, before: int | None, **f: Any) -> Act:
    since = "" if step is None else f" since step {step:,}"
    if f["half"] and f["scale"] == "fixed":
        title = f"A loss scale below {f['scale_value']:,.7g}, or a dynamic one"
        how: tuple[str, ...] = (f"gradients times the scale stay below {LARGEST_HALF:,}",)
    else:
        title, how = f"Find out why {shorten(name, _NAME)} is {value}", _HALF[f["scale"]] if f["half"] else _OTHER
    updates = "with no finite value before"
    if step is not None and before is not None:
        last = "" if step - before == 1 else f" to {step - 1:,}"
        updates = f"{'updates' if last else 'the update'} before: step{'s' if last else ''} {before:,}{last}"
        updates += f"; step {before:,} logged {f['before_value']:.4g}"
    return Act(title, how, (f"{name} is {value}{since}: no step after is of a training", updates))


def tc321(run: Run) -> Iterator[Advice]:
    """Yield one item where a loss that the workload logged is no finite number from some step on."""
    found = run.facts.diverged
    if found is None:
        return
    said: Statement[AdviceKind] = say("finite_loss", **{name: getattr(found, name) for name in found.__struct_fields__})
    yield Advice("TC321", said, Concern(100.0, "step", None, None, run.step_ns, run.length))


MOST_USED_PCT: Final = 50.0  # of the memory: beyond that twice the batch may not fit
LEAST_SMALL_PCT: Final = 10.0  # of the kernel time, in products that are too small
MOST_START_PCT: Final = 50.0  # of the waiting: from here on a usual step is likely to wait otherwise
LEAST_IDLE_PCT: Final = 25.0  # of the step: below that a larger batch gains little by waiting less
PER_STEP: Final[tuple[HostWork, ...]] = ("launch", "python")
"""What the host does once a step, whatever the batch."""
SCALES: Final = (
    "Keras 3: loss_scale_factor=1024.0 of the optimizer with compile(auto_scale_loss=False)",
    "Keras 2: LossScaleOptimizer(optimizer, dynamic=False, initial_scale=1024)",
    "watch the loss (too large a scale gives NaN)",
)


def _profile_later(_: Advice, kernels: int, ops: int, worst_op: str | None, worst_calls: int) -> Act:
    if worst_op is None:
        stretches = many(ops, "stretch", "stretches")
        why = f"{stretches} of convolutions in many ways, up to {worst_calls:,} kernels in a row"
    else:
        of = f"{worst_calls:,} in a call of {shorten(worst_op, NAME_WIDTH)}"
        why = f"{many(kernels, 'kernel')} tried for {many(ops, 'op')}, {of}"
    return Act("Profile later steps, after warm-up", (), (why, "nothing else here is about a usual step"))


def _fix_scale(_: Advice, ops: int, ns: float, waiting_ns: float, **most: Any) -> Act:
    waits = f", and {duration(waiting_ns)} of waiting for the host to read the answer" if waiting_ns else ""
    looks = f"{ops:,} ops look at the gradients: {duration(ns)} a step{waits}"
    return Act("A fixed loss scale, such as 1024", SCALES, (looks, f"as far as it shows, {of_step(**most)}"))


def _skip_warm_up(_: Advice, slow: int, slowest_ns: float, usual_ns: float, **__: Any) -> Act:
    why = f"up to {duration(slowest_ns)} each, later ones {duration(usual_ns)}: warm-up is in the figures"
    return Act(f"Leave the first {many(slow, 'step')} out", ("--iter-start", "or start the profiler later"), (why,))


def _larger_batch(_: Advice, used_gb: float, total_gb: float, free_gb: float, **f: Any) -> Act:
    small, waits = f["small_ns"], f["waiting_ns"]
    why = (
        f"{free_gb:.1f} of {total_gb:.1f} GB of memory are free at the peak of {used_gb:.1f} GB",
        f"products too small to fill the GPU take {duration(small)}" if small else "",
        f"the GPU waits {duration(waits)} for what the host does once a step" if waits else "",
        f"{of_step(**f)}, for the same number of samples",
    )
    return Act("A larger batch", ("as long as training bears it",), tuple(filter(None, why)))


def _marks(steps: int | None) -> str:
    return f"the profile marks {'one step' if steps == 1 else 'no step'}"


def _profile_steps(_: Advice, steps: int | None) -> Act:
    why = f"{_marks(steps)}: warm-up may be in all figures"
    return Act("Profile several later steps, each marked", (), ("tcprobe profile and NVTX ranges mark them", why))


def _profile_usual_steps(_: Advice, steps: int | None, start_pct: float, when: bool) -> Act:
    if not when:
        why = f"{_marks(steps)}, and nothing tells when the GPU waits"
        return Act("Profile later steps, each marked, with their ops", (), ("start-up may be most of this", why))
    share = f"{whole_percent(start_pct)} of the waiting may be that of a first step"
    return Act("Profile several steps after warm-up", (), (share, f"{_marks(steps)}: a usual one may wait less"))


SAYS: Final[RunSays] = {
    "profile_later": _profile_later,
    "fix_scale": _fix_scale,
    "skip_warm_up": _skip_warm_up,
    "profile_steps": _profile_steps,
    "profile_usual_steps": _profile_usual_steps,
    "larger_batch": _larger_batch,
    "finite_loss": _finite_loss,
    "key_node": lambda _, times: Act(
        "A key node that runs once a step: find-key-node", (), (f"most ops run {times:,} times in each of its steps",)
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
