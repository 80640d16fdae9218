"""TC301: says that the GPU waits, how long, what the host does meanwhile, and what follows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tcprobe.rules.base import Says
from tcprobe.rules.run.base import Run, idle_ns
from tcprobe.rules.words import way
from tcprobe.schema.advice import WAITING, Advice, AdviceKind, Bound, Concern
from tcprobe.schema.statement import Both, Duration, FieldValue, Name, Rate, Share, Size, Statement, say
from tcprobe.schema.waits import HOST_WORK, HostWork, Waiting

if TYPE_CHECKING:
    from tcprobe.schema.columns import Row

Parts: TypeAlias = tuple[str | Name | Duration | Share | Size | Rate, ...]
LEAST_PCT: Final = 5.0  # of the step: gaps between launches alone reach a few percent of a busy GPU's step
MUCH_PCT: Final = 25.0  # of the waiting: a cause from here on is worth its remedy
MOST_PCT: Final = 50.0  # of the waiting: a cause below it is told as a part
BETWEEN: Final = ("MemcpyH2D", "MemcpyD2H", "MemcpyP2P")  # kinds of copies that leave the GPU
LEAST_UNKNOWN_PCT: Final = 10.0  # of the waiting
START_WORK: Final[tuple[HostWork, ...]] = ("compile", "copy_call", "executor", "unknown")
"""What the first steps do and later ones hardly: trace, tune, load kernels (in a call that copies, or an op); and what
nothing tells of."""
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
    "profiler": {
        None: "Record less at a time: no change of the program saves what the profiler itself takes",
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
    "set": {
        None: "Copy and clear less within the GPU: write results in place, and let a compiler fuse copies with their "
        "neighbours",
    },
    "copy_call": {
        None: "Find out what holds up the calls that copy: pageable memory (pin it), many small copies, or the loading "
        "of kernels in a first step (profile a later one)",
    },
    "op": {
        None: "Move the op that runs on the host out of the step, or prepare what it returns ahead of it",
    },
    "queued": {
        None: "Give the GPU fewer and longer kernels, or launch them by a CUDA graph: it pauses between kernels that "
        "wait in its queue, longer under a profiler",
    },
    "executor": {
        None: "Profile later steps: the first calls of an op load its kernels and choose algorithms. If it lasts, time "
        "on the host the op that launches the next kernel",
    },
    "outside": {
        None: "Do less between the steps: look at what the training loop calls there, such as callbacks, metrics, "
        "logging and saving, and do it less often",
        "tensorflow": "Do less between the steps: look at callbacks, metrics, logging and saving, do them less often, "
        "or train several steps a call (Model.compile(steps_per_execution=...))",
        "jax": "Do less between the steps: look at what the training loop calls there, such as metrics, logging and "
        "saving, do it less often, or train several steps a call (jax.lax.scan)",
    },
    "range": {
        None: "Find out what the program does in these ranges (--by wait lists them): time their parts, or mark them "
        "with ranges of their own",
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
SILENT: Final = (
    "nothing of the host was recorded in that time (a call that had not ended when the recording did leaves no trace); "
    "record Python too, mark it with NVTX ranges, or time the input pipeline alone"
)
"""What to do about waiting in which the profiler recorded nothing of the host, though it records the host."""
FEW: Final = ("Record later steps, and several: ", "Find out what the host does then: ")
"""What that begins with: where one step or none counts, and where several do."""
LEAST_BATCH: Final = 65_536  # bytes, of the mean copy to the GPU: scalars and schedules are smaller, batches are not
BLOCKED: Final = (
    "Find out what the next kernel waits for, which was launched already: a copy, another stream, another process, or "
    "the profiler"
)
"""What to do about kernels in the queue where most of that time passes in long stretches."""
MOST_REPORTED_PCT: Final = 99.0
"""Above it a share that DLProf reports, with one decimal, tells less than two digits of how long the GPU is busy."""


def _way(
    work: HostWork, compiled: bool, framework: str | None, in_short: bool, recorded: bool, fed_pct: float, several: bool
) -> str:
    if work == "queued" and not in_short:
        return BLOCKED
    if work == "unknown" and fed_pct >= MOST_PCT:
        return way(WAYS["input"], framework)
    if work == "unknown" and recorded:
        return FEW[several] + SILENT
    return way(COMPILED if work == "launch" and compiled else WAYS[work], framework)


def _feed_gpu(
    work: HostWork, compiled: bool, framework: str | None, in_short: bool, recorded: bool, part: bool, fed_pct: float,
    several: bool, **f: Any,
) -> Both:  # fmt: skip
    about: Parts = () if part else (*_waits(**f), *_gap(**f), "; ")
    spent = _part(work, in_short, recorded, part, fed_pct, **f)
    untold = () if part else _untold(work, recorded, **f)
    return Both(_way(work, compiled, framework, in_short, recorded, fed_pct, several), (*about, *spent, *untold))


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


def _part(
    work: HostWork, in_short: bool, recorded: bool, part: bool, fed_pct: float, work_pct: float | None, work_ns: float,
    **f: Any,
) -> Parts:  # fmt: skip
    """Return what of the waiting goes to one kind of work, and the event that takes most of that."""
    if work_pct is None:
        return ("the profile does not tell when",)
    which = "another part, " if part else "a part, " if work_pct < MOST_PCT else ""
    share: Parts = (which, Share(work_pct), " of the waiting, ", Duration(work_ns))
    if work == "unknown":
        fed: Parts = (
            "; gaps that end with a copy to the GPU are ",
            Share(fed_pct),
            " of that in long ones: likely input",
        )
        return (*share, f", has {_why_untold(recorded)}", *(fed if fed_pct >= MOST_PCT else ()))
    if work == "outside":
        return (*share, ", passes outside the training call", *_named(silence=SILENCE, **f))
    if work == "range":
        return (*share, ", passes in ranges that the program marks, with nothing else recorded", *_named(**f))
    goes: Parts = (*share, f", goes to {HOST_WORK[work]}", *((", in short gaps",) if in_short else _named(**f)))
    return (*goes, *_copied(work, **f)) if work in ("copy", "copy_call") else goes


def _copied(
    work: HostWork, copy_ns: float, copy_bytes: float | None, copies: float, length: str | None, **_: Any
) -> Parts:
    """Return what the device itself copies in a step; of calls that copy, that this is all that they move."""
    moved: Parts = () if copy_bytes is None else (", ", Size(copy_bytes))
    rate: Parts = (" at ", Rate(copy_bytes / copy_ns * 1e9)) if copy_bytes and copy_ns else ()
    if not copies:  # none that is known to be between host and GPU
        return ()
    if work == "copy_call":
        return ("; the GPU itself copies for ", Duration(copy_ns), *moved)
    step = "" if length == "capture" else " a step"
    return (f"; {copies:,.4g} copies{step} take ", Duration(copy_ns), *moved, *rate)


SILENCE: Final = ", with nothing recorded: likely Python, or what it calls (callbacks, I/O, the profiler)"


def _named(host_op: str | None, named_pct: float, silence: str = "", **_: Any) -> Parts:
    """Return the event that tells of most of some waiting; what to say where none does."""
    if host_op is None or named_pct < MUCH_PCT:
        return (silence,) if silence else ()
    return (" (above all " if named_pct >= MOST_PCT else " (the largest part ", Name(host_op), ")")


def _why_untold(recorded: bool) -> str:
    return "no event of the host" if recorded else "no record of what the host did"


def _untold(work: HostWork, recorded: bool, unknown_pct: float, profiler_pct: float, **_: Any) -> Parts:
    """Say what share of the waiting nothing tells of, or is the profiler's, where noticeable and not said already."""
    told: Parts = ("; ", Share(profiler_pct), " of it the profiler itself takes") if profiler_pct >= LEAST_PCT else ()
    if work == "unknown" or unknown_pct < LEAST_UNKNOWN_PCT:
        return told
    return (*told, "; ", Share(unknown_pct), f" of it has {_why_untold(recorded)}")


SAYS: Final[Says] = {"feed_gpu": _feed_gpu}


def tc301(run: Run) -> Iterator[Advice]:
    """Yield an item for what takes most of the waiting, and one for the next cause that takes much of it.

    Each can save its own part of the waiting at most.
    """
    waiting = run.waiting
    if waiting is None or waiting.idle_pct < LEAST_PCT:
        return
    # no change of the program saves what the profiler takes; TC302 says what autotuning and the start around it take
    silent: tuple[HostWork, ...] = ("profiler",) if run.tuning is None else ("profiler", "compile", "unknown")
    works = [one for one in by_work(run) if one[0] not in silent]
    if not works and run.tuning is None:
        yield _item(run, waiting, "unknown", None)
    for place, (work, pct) in enumerate([one for one in works if one[1] >= MUCH_PCT][:2] or works[:1]):
        yield _item(run, waiting, work, pct, part=place > 0)


def _item(run: Run, waiting: Waiting, work: HostWork, pct: float | None, part: bool = False) -> Advice:
    share = 1.0 if pct is None else pct / 100.0
    gap: Mapping[str, FieldValue] = run.gaps[0] if run.gaps else {"duration_ns": None, "before": None}
    rows = [row for row in run.waits if row["host_work"] == work]
    short = idle_ns(row for row in rows if row["short"])
    saved = share * waiting.idle_ns
    host_op, named_pct = _evidence(rows)
    said: Statement[AdviceKind] = say(
        "feed_gpu",
        framework=run.facts.framework,
        compiled=run.compiled,
        idle_ns=waiting.idle_ns,
        idle_pct=waiting.idle_pct,
        busy_ns=waiting.busy_ns,
        step_ns=waiting.step_ns,
        length=waiting.length,
        work=work,
        work_pct=pct,
        work_ns=saved,
        host_op=host_op,
        named_pct=named_pct,
        **_moved(run),
        in_short=2 * short > idle_ns(rows),
        recorded=len(run.profile.require("host_events")) > 0,
        fed_pct=_fed_pct(run) if work == "unknown" else 0.0,
        several=(run.steps or 0) > 1,
        unknown_pct=dict(by_work(run)).get("unknown", 0.0),
        profiler_pct=dict(by_work(run)).get("profiler", 0.0),
        part=part,
        gap_ns=gap["duration_ns"],
        before=gap["before"],
    )
    concern = Concern(share * waiting.idle_pct, "step", None, saved, waiting.step_ns, waiting.length, "idle")
    return Advice("TC301", said, concern, draws_on=waiting_of(work))


def _evidence(rows: list[Row]) -> tuple[str | None, float]:
    """Return the event that tells of most of some rows of `waits`, and its share of their time; None and 0 for none."""
    spent: Counter[str] = Counter()
    for row in rows:
        if row["host_op"] is not None:
            spent[str(row["host_op"])] += int(row["idle_ns"] or 0)
    if not any(spent.values()):
        return None, 0.0
    (name, ns), *_ = sorted(spent.items(), key=lambda one: (-one[1], one[0]))
    return name, 100.0 * ns / idle_ns(rows)


def _fed_pct(run: Run) -> float:
    """Return the share, by time, of the long gaps that nothing tells of which end with a copy of a batch to the GPU.

    0 where copies to the GPU are too small on average to be batches, or their size is not known; and of one step or
    none, which may wait for the start of the run.
    """
    if (run.steps or 0) <= 1:
        return 0.0
    copied = [row for row in run.profile.require("copies").rows() if row["kind"] == "MemcpyH2D"]
    bytes_, calls = (sum(float(row[name] or 0) for row in copied) for name in ("size_bytes", "calls"))
    gaps = [row for row in run.gaps if row["host_work"] == "unknown"]
    total = sum(float(row["duration_ns"] or 0) for row in gaps)
    if not calls or bytes_ < LEAST_BATCH * calls or not total:
        return 0.0
    fed = sum(float(row["duration_ns"] or 0) for row in gaps if str(row["before"]).startswith("MemcpyH2D"))
    return 100.0 * fed / total


def _moved(run: Run) -> dict[str, FieldValue]:
    """Return the copies between host and GPU in a step of one GPU: time of the device, bytes (None: not known), number.

    Where no step is known, those of the capture.
    """
    rows = [row for row in run.profile.require("copies").rows() if row["kind"] in BETWEEN]
    each = (run.profile.kernel_steps or 1) * max(run.gpus, 1)
    sizes = [row["size_bytes"] for row in rows]
    moved = None if None in sizes else sum(float(size or 0) for size in sizes) / each
    spent, calls = (sum(float(row[name] or 0) for row in rows) / each for name in ("sum_ns", "calls"))
    return {"copy_ns": spent, "copy_bytes": moved, "copies": calls}


def waiting_of(*works: HostWork) -> frozenset[str]:
    """Return what an item draws on whose saving is time that the GPU waits for this."""
    return frozenset(f"{WAITING} {work}" for work in works)


def by_work(run: Run) -> list[tuple[HostWork, float]]:
    """Return what the host did and its share of the waiting, 0-100, the largest first; they add up to 100."""
    spent: dict[HostWork, float] = {}
    for row in run.waits:
        work: Any = row["host_work"]
        spent[work] = spent.get(work, 0.0) + float(row["idle_ns"] or 0)
    total = sum(spent.values())
    return sorted(((work, 100.0 * ns / total) for work, ns in spent.items() if ns), key=lambda one: (-one[1], one[0]))


def main_work(run: Run) -> list[tuple[HostWork, float]]:
    """Return the kinds of work that explain much of the waiting, at most two, the largest first."""
    return [share for share in by_work(run) if share[0] not in ("unknown", "profiler") and share[1] >= MUCH_PCT][:2]


def start_pct(run: Run) -> float | None:
    """Return the share of the waiting that a start of training does too or nothing tells of, 0-100.

    None where the GPU is busy for most of the time. Of a whole capture of which nothing tells when the GPU waits, all
    of the waiting may be a start's, however little it is.
    """
    waiting, works = run.waiting, by_work(run)
    if waiting is None or waiting.idle_pct < (MOST_PCT if works else LEAST_PCT):
        return None
    if not works:
        return 100.0 if waiting.length == "capture" else None
    return sum(pct for work, pct in works if work in START_WORK)


def sends_later(run: Run) -> bool:
    """Return whether what TC301 says first is to profile later steps."""
    if run.waiting is None or run.waiting.idle_pct < LEAST_PCT or not (works := by_work(run)):
        return False
    recorded = len(run.profile.require("host_events")) > 0
    return works[0][0] in ("compile", "executor") or (works[0][0] == "unknown" and recorded)


def named_work(run: Run) -> list[HostWork]:
    """Return the kinds of work that TC301 names as what the GPU waits for; none where it says nothing."""
    if run.waiting is None or run.waiting.idle_pct < LEAST_PCT:
        return []
    return [work for work, _ in main_work(run)]


def usual_step(run: Run) -> Waiting | None:
    """Return how long a step takes and the GPU waits in it; None of steps with autotuning, and where no step tells."""
    waiting = run.waiting
    return None if waiting is None or waiting.length == "capture" or run.tuning is not None else waiting


def saves(waiting: Waiting, at_most_ns: float, bound: Bound, kernel_ns: float | None = None) -> Concern:
    """Return how much of a step an item concerns that can save so much of it.

    Args:
        waiting: the step.
        at_most_ns: of a step; cut to the step.
        bound: what that is.
        kernel_ns: kernel time in a step, summed over GPUs.
    """
    step = waiting.step_ns
    most = max(0.0, min(at_most_ns, step))
    return Concern(100.0 * most / step if step else 0.0, "step", kernel_ns, most, step or None, waiting.length, bound)


def bounded(concern: Concern) -> dict[str, FieldValue]:
    """Return the most that an item can save of a step, as the fields of `of_step`."""
    return {"at_most_ns": concern.at_most_ns, "at_most_pct": concern.share_pct, "step_ns": concern.step_ns}


def of_step(shown: str, at_most_ns: float, at_most_pct: float, step_ns: float, **_: Any) -> Parts:
    """Return the words for the most that an item can save of a step; `shown` limits what the profile tells of it."""
    return Duration(at_most_ns), " of a step of ", Duration(step_ns), f"{shown}, ", Share(at_most_pct)
