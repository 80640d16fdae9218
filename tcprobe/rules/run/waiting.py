"""TC301: says that the GPU waits, how long, what the host does meanwhile, and what follows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

from tcprobe.rules.base import Says
from tcprobe.rules.run.base import Run
from tcprobe.rules.words import way
from tcprobe.schema.advice import WAITING, Advice, Concern
from tcprobe.schema.statement import Both, Duration, FieldValue, Name, Share, say
from tcprobe.schema.waits import HOST_WORK, HostWork, Waiting

Parts: TypeAlias = tuple[str | Name | Duration | Share, ...]
LEAST_PCT: Final = 5.0  # of the step: gaps between launches alone reach a few percent of a busy GPU's step
MUCH_PCT: Final = 25.0  # of the waiting: a cause from here on is worth its remedy
WAYS: Final[Mapping[HostWork, dict[str | None, str]]] = {
    "input": {
        None: "Prepare the next batches while the GPU computes: prefetch, load in parallel, cache",
        "tensorflow": "Prepare the next batches while the GPU computes: Dataset.prefetch(tf.data.AUTOTUNE), "
        "map(..., num_parallel_calls=tf.data.AUTOTUNE), cache()",
        "pytorch": "Prepare the next batches while the GPU computes: DataLoader(num_workers=..., pin_memory=True)",
    },
    "copy": {
        None: "Copy ahead of the step, in few large copies from pinned memory, or keep the data on the GPU",
        "tensorflow": "Copy ahead of the step (tf.data.experimental.prefetch_to_device), in few large copies, or keep "
        "the data on the GPU",
        "pytorch": "Copy ahead of the step, in few large copies (pin_memory=True, to(device, non_blocking=True)), or "
        "keep the data on the GPU",
        "jax": "Copy ahead of the step (jax.device_put of the next batch), in few large copies, or keep the data on "
        "the GPU",
    },
    "compile": {
        None: "Profile after warm-up; if it still traces or compiles then, keep shapes and Python arguments the same",
        "tensorflow": "Profile after warm-up; if it still traces or compiles then, keep shapes and Python arguments "
        "the same: tf.function(input_signature=...), batches of one size (drop_remainder=True)",
    },
    "python": {
        None: "Do less in Python between calls: compile the whole step, and several steps into one call",
        "tensorflow": "Do less in Python between calls: put the whole step into one tf.function, or "
        "Model.compile(steps_per_execution=...)",
        "pytorch": "Do less in Python between calls: torch.compile, CUDA graphs",
        "jax": "Do less in Python between calls: jax.jit of the whole step, jax.lax.scan over several",
    },
    "communicate": {
        None: "Wait less for other GPUs and processes: balance what each computes, send less and in fewer messages, "
        "and begin to send while the GPU computes",
    },
    "synchronise": {
        None: "Fetch losses and metrics less often: each makes the host wait for the GPU before it launches more",
        "tensorflow": "Fetch losses and metrics less often: each float(), numpy() or print makes the host wait for "
        "the GPU before it launches more",
        "pytorch": "Fetch losses and metrics less often: each item(), cpu() or print makes the host wait for the GPU "
        "before it launches more",
        "jax": "Fetch losses and metrics less often: each float() or print makes the host wait for the GPU before it "
        "launches more",
    },
    "launch": {
        None: "Launch fewer and longer kernels: let a compiler fuse them, or take a larger batch",
        "tensorflow": "Launch fewer and longer kernels: XLA (jit_compile=True), a larger batch, or "
        "Model.compile(steps_per_execution=...)",
        "pytorch": "Launch fewer and longer kernels: torch.compile, CUDA graphs, or a larger batch",
        "jax": "Launch fewer and longer kernels: jax.jit of the whole step, or a larger batch",
    },
    "unknown": {
        None: "Find out what the GPU waits for, most often the input pipeline or Python: time the input pipeline "
        "alone, and record the host's work with the kernels",
    },
}
"""What to do about each kind of work of the host, by framework."""
COMPILED: Final[dict[str | None, str]] = {
    None: "Launch fewer and longer kernels: a larger batch, or several steps in one call",
    "tensorflow": "Launch fewer and longer kernels: a larger batch, or Model.compile(steps_per_execution=...)",
    "jax": "Launch fewer and longer kernels: a larger batch, or jax.lax.scan over several steps",
}
"""What to do about launches where XLA compiled the step already."""
MOST_REPORTED_PCT: Final = 99.0
"""Above it a share that DLProf reports, with one decimal, tells less than two digits of how long the GPU is busy."""


def _way(work: HostWork, compiled: bool, framework: str | None) -> str:
    return way(COMPILED if work == "launch" and compiled else WAYS[work], framework)


def _feed_gpu(work: HostWork, also: HostWork | None, compiled: bool, framework: str | None, **f: Any) -> Both:
    order = _way(work, compiled, framework)
    if also:
        order += f". {_way(also, compiled, framework)}"
    return Both(order, (*_waits(**f), *_gap(**f), *_meanwhile(work, also, **f)))


def _waits(length: str | None, idle_ns: float, idle_pct: float, busy_ns: float, step_ns: float, **_: Any) -> Parts:
    idle, step, share = Duration(idle_ns), Duration(step_ns), Share(idle_pct)
    if length == "capture":
        return "the GPU waits ", idle, " of the ", step, " captured, ", share, " (no step's length is known)"
    waits: Parts = ("the GPU waits ", idle, " of a step of ", step, ", ", share)
    exact = length != "reported" or idle_pct <= MOST_REPORTED_PCT
    return (*waits, ": it is busy ", Duration(busy_ns)) if exact else waits


def _gap(gap_ns: float | None, before: str | None, idle_ns: float, **_: Any) -> Parts:
    if gap_ns is None:
        return ()
    ends: Parts = ("ends with ", Name(before)) if before else ("lasts to the end",)
    longer = " under the profiler" if gap_ns > idle_ns else ""  # which slowed the host
    return f"; the longest gap{longer}, ", Duration(gap_ns), ", ", *ends


def _meanwhile(work: HostWork, also: HostWork | None, **f: Any) -> Parts:
    if work == "unknown":
        return ("; the profile does not tell ", "when" if f["gap_ns"] is None else "what the host did meanwhile")
    parts: Parts = ("; ", Share(f["work_pct"]), f" of the waiting goes to {HOST_WORK[work]}")
    if work == "launch" and f["in_short"]:
        parts += (", in short gaps",)
    elif f["host_op"] and f["host_ns"]:
        parts += (" (longest: ", Name(f["host_op"]), ", ", Duration(f["host_ns"]), ")")
    return (*parts, ", ", Share(f["also_pct"]), f" to {HOST_WORK[also]}") if also else parts


SAYS: Final[Says] = {"feed_gpu": _feed_gpu}


def tc301(run: Run) -> Iterator[Advice]:
    """Yield one item where the GPU waits for more than a few percent of a step."""
    waiting = run.waiting
    if waiting is None or waiting.idle_pct < LEAST_PCT:
        return
    gap: Mapping[str, FieldValue] = run.gaps[0] if run.gaps else {"duration_ns": None, "before": None}
    yield Advice(
        "TC301",
        say(
            "feed_gpu",
            framework=run.facts.framework,
            compiled=run.compiled,
            idle_ns=waiting.idle_ns,
            idle_pct=waiting.idle_pct,
            busy_ns=waiting.busy_ns,
            step_ns=waiting.step_ns,
            length=waiting.length,
            **_host(run),
            gap_ns=gap["duration_ns"],
            before=gap["before"],
        ),
        Concern(waiting.idle_pct, "step", None, waiting.idle_ns, waiting.step_ns, waiting.length, "idle"),
        draws_on=frozenset([WAITING]),
    )


def _host(run: Run) -> dict[str, FieldValue]:
    """Return what the host did in most of the waiting that is told, and in much of the rest."""
    works = main_work(run)
    work, pct = works[0] if works else ("unknown", None)
    also, also_pct = works[1] if len(works) > 1 else (None, None)
    worst = next((gap for gap in run.gaps if gap["host_work"] == work), None)
    launched = sum(float(gap["duration_ns"] or 0) for gap in run.gaps if gap["host_work"] == "launch")
    return {
        "work": work, "work_pct": pct, "also": also, "also_pct": also_pct,
        "host_op": worst["host_op"] if worst else None, "host_ns": worst["host_ns"] if worst else None,
        "in_short": paced_ns(run) > launched and work == "launch",
    }  # fmt: skip


def paced_ns(run: Run) -> float:
    """Return the waiting in stretches too short for a row of `gaps`, where it is half of all and so counts as launches.

    0 where it is less: those stretches then count as nothing that is told.
    """
    return run.short_ns if 2 * run.short_ns >= (run.idle_ns or 0.0) else 0.0


def by_work(run: Run) -> list[tuple[HostWork, float]]:
    """Return what the host did and its share of the waiting, 0-100, the largest first; the gaps' time if unknown."""
    spent: dict[HostWork, float] = {"launch": paced_ns(run)}
    for gap in run.gaps:
        work: Any = gap["host_work"] or "unknown"
        spent[work] = spent.get(work, 0.0) + float(gap["duration_ns"] or 0)
    listed = sum(spent.values())
    total = max(listed, run.idle_ns or 0.0)
    copies = spent.get("copy", 0.0)  # of the gaps that are listed; those that are not may hold nothing else
    spent["copy"] = max(copies, min(run.copy_ns, total - (listed - copies)))
    shares = ((work, 100.0 * ns / total if total else 0.0) for work, ns in spent.items())
    return sorted(shares, key=lambda share: (-share[1], share[0]))


def main_work(run: Run) -> list[tuple[HostWork, float]]:
    """Return the kinds of work that explain much of the waiting, at most two, the largest first."""
    return [share for share in by_work(run) if share[0] != "unknown" and share[1] >= MUCH_PCT][:2]


def named_work(run: Run) -> list[HostWork]:
    """Return the kinds of work that TC301 names as what the GPU waits for; none where it says nothing."""
    if run.waiting is None or run.waiting.idle_pct < LEAST_PCT:
        return []
    return [work for work, _ in main_work(run)]


def usual_step(run: Run) -> Waiting | None:
    """Return how long a step takes and the GPU waits in it; None of steps with autotuning, and where no step tells."""
    waiting = run.waiting
    return None if waiting is None or waiting.length == "capture" or run.tuning is not None else waiting


def bounded(concern: Concern) -> dict[str, FieldValue]:
    """Return the most that an item can save of a step, as the fields of `of_step`."""
    return {"at_most_ns": concern.at_most_ns, "at_most_pct": concern.share_pct, "step_ns": concern.step_ns}


def of_step(shown: str, at_most_ns: float, at_most_pct: float, step_ns: float, **_: Any) -> Parts:
    """Return the words for the most that an item can save of a step; `shown` limits what the profile tells of it."""
    return Duration(at_most_ns), " of a step of ", Duration(step_ns), f"{shown}, ", Share(at_most_pct)
