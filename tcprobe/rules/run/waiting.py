"""TC301: says that the GPU waits, how long, what the host does meanwhile, and what follows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from tcprobe.formatting import duration, percent, rate, shorten, size, whole_percent
from tcprobe.rules.run.base import Run, RunSays, idle_ns
from tcprobe.rules.words import NAME_WIDTH, Act, Ways, way
from tcprobe.schema.advice import WAITING, Advice, AdviceKind, Bound, Concern
from tcprobe.schema.statement import FieldValue, Statement, say
from tcprobe.schema.waits import HOST_WORK, HostWork, Waiting

if TYPE_CHECKING:
    from tcprobe.schema.columns import Row

LEAST_PCT: Final = 5.0  # of the step: gaps between launches alone reach a few percent of a busy GPU's step
MUCH_PCT: Final = 25.0  # of the waiting: a cause from here on is worth its remedy
MOST_PCT: Final = 50.0  # of the waiting: a cause below it is told as a part
BETWEEN: Final = ("MemcpyH2D", "MemcpyD2H", "MemcpyP2P")  # kinds of copies that leave the GPU
LEAST_UNKNOWN_PCT: Final = 10.0  # of the waiting
START_WORK: Final[tuple[HostWork, ...]] = ("compile", "copy_call", "executor", "unknown")
"""What the first steps do and later ones hardly: trace, tune, load kernels (in a call that copies, or an op); and what
nothing tells of."""
LONGER: Final[Ways] = {
    None: ("CUDA graphs", "a larger batch"),
    "tensorflow": ("jit_compile=True", "a larger batch", "steps_per_execution"),
    "pytorch": ("torch.compile", "CUDA graphs", "a larger batch"),
    "jax": ("jax.jit of the whole step", "a larger batch"),
}
COMPILED: Final[Ways] = {
    None: ("a larger batch", "several steps in one call"),
    "tensorflow": ("steps_per_execution", "a larger batch"),
    "jax": ("jax.lax.scan over steps", "a larger batch"),
}
"""Where XLA compiled the step already."""
FEWER: Final = "Fewer, longer kernels"
WAYS: Final[Mapping[HostWork, tuple[str, Ways]]] = {
    "input": (
        "Prepare batches ahead",
        {
            None: ("prefetch", "cache", "load in parallel"),
            "tensorflow": ("prefetch(AUTOTUNE)", "cache()", "map(..., num_parallel_calls=AUTOTUNE)"),
            "pytorch": ("DataLoader(num_workers=...)", "pin_memory=True"),
        },
    ),
    "copy": (
        "Copy batches ahead",
        {
            None: ("pinned memory", "few large copies", "data kept on the GPU"),
            "tensorflow": ("prefetch_to_device", "few large copies", "data kept on the GPU"),
            "pytorch": ("pin_memory, non_blocking", "few large copies", "data kept on the GPU"),
            "jax": ("jax.device_put", "few large copies", "data kept on the GPU"),
        },
    ),
    "compile": (
        "Profile after warm-up; keep shapes the same",
        {None: (), "tensorflow": ("tf.function(input_signature=...)", "batches with drop_remainder=True")},
    ),
    "python": (
        "Less Python",
        {
            None: ("compile the whole step", "several steps in one call"),
            "tensorflow": ("the whole step in one tf.function", "steps_per_execution"),
            "pytorch": ("torch.compile", "CUDA graphs"),
            "jax": ("jax.jit of the whole step", "jax.lax.scan over several"),
        },
    ),
    "profiler": ("Record less at a time", {None: ()}),
    "communicate": ("Send while computing; balance the processes", {None: ("fewer and larger messages",)}),
    "synchronise": (
        "Fetch losses and metrics less often",
        {
            None: ("each makes the host wait",),
            "tensorflow": ("each float(), numpy() or print waits",),
            "pytorch": ("each item(), cpu() or print waits",),
            "jax": ("each float() or print waits",),
        },
    ),
    "launch": (FEWER, LONGER),
    "set": ("Copy and clear less within the GPU", {None: ("results in place", "a compiler that fuses copies")}),
    "copy_call": (
        "Find what holds up the calls that copy",
        {None: ("pageable memory", "many small copies", "kernels loaded in a first step")},
    ),
    "op": ("Move the op on the host out of the step", {None: ("prepare ahead what it returns",)}),
    "queued": ("Longer kernels, or a CUDA graph", {None: ()}),
    "executor": ("Profile later steps", {None: ("first calls load kernels", "if it lasts: time that op on the host")}),
    "outside": (
        "Do less between the steps",
        {
            None: ("logging, saving", "metrics"),
            "tensorflow": ("callbacks, logging", "metrics, saving", "steps_per_execution"),
            "jax": ("logging, saving", "metrics", "jax.lax.scan over several"),
        },
    ),
    "range": (
        "Do less on the host in the marked ranges",
        {None: ("--by wait lists them", "mark their parts too")},
    ),
    "unknown": ("Find what the GPU waits for", {None: ("time the input pipeline alone", "record the host's work")}),
}
"""What to do about each kind of work of the host, and how."""
SILENT: Final = ("record Python too", "mark it with NVTX ranges", "time the input pipeline alone")
"""How, where the profiler recorded nothing of the host in that time, though it records the host."""
AHEAD: Final = "Do this Python ahead of the step"
"""What to do where most of the waiting for Python is one stretch."""
LEAST_BATCH: Final = 65_536  # bytes, of the mean copy to the GPU: scalars and schedules are smaller, batches are not
BLOCKED: Final = ("a copy, another stream, another process or the profiler",)
"""What kernels in the queue may wait for, where most of that time passes in long stretches."""
NAME: Final = 36  # columns of the event that tells


def _feed_gpu(_: Advice, work: HostWork, work_pct: float | None, recorded: bool, part: bool, **f: Any) -> Act:
    if work_pct is None and f["profiler_pct"] >= MOST_PCT:  # nothing else is known
        work, work_pct = "profiler", f.pop("profiler_pct")
    title, ways = WAYS[work]
    how = way(COMPILED if work == "launch" and f["compiled"] else ways, f["framework"])
    if work_pct is None:
        title, how = "Record a timeline: when it waits is unknown", ()
    elif work == "queued" and not f["in_short"]:
        title, how = "Find what the next kernel waits for", BLOCKED
    elif work == "python" and 2 * (f["gap_ns"] or 0.0) > f["work_ns"]:  # one stretch, and no pace of calls
        title, how = AHEAD, tuple(one for work in ("input", "python") for one in way(WAYS[work][1], f["framework"])[:2])
    elif work == "unknown" and f["fed_pct"] >= MOST_PCT:
        title, how = WAYS["input"][0], way(WAYS["input"][1], f["framework"])
    elif work == "unknown" and recorded:
        title, how = "Find what the host does then" if f["several"] else "Record later steps, and several", SILENT
    reasons = (
        _goes(work, work_pct, recorded, **f),
        *(() if part else (_waits(**f), _gap(**f), *_untold(work, recorded, **f))),
    )
    return Act(title, how, tuple(filter(None, reasons)))


def _goes(work: HostWork, work_pct: float | None, recorded: bool, fed_pct: float, named_pct: float, **f: Any) -> str:
    """Return what of the waiting is for one kind of work, and what tells that."""
    if work_pct is None:
        return "sums alone were recorded; Nsight Systems has the times"
    share = f"{whole_percent(work_pct)} of the waiting"
    if work == "unknown":
        fed = f"; {whole_percent(fed_pct)} of it in gaps that end with a copy to the GPU" if fed_pct >= MOST_PCT else ""
        gap = f"; longest gap {duration(f['gap_ns'])}" if f["gap_ns"] else ""
        return f"{share}: {_why_untold(recorded)}{fed}{gap}"
    copied = _copied(**f) if work == "copy" else ""
    named = f" ({shorten(f['host_op'], NAME)})" if f["host_op"] not in (None, work) and named_pct >= MUCH_PCT else ""
    return f"{share}: {HOST_WORK[work]}{copied or named}"


def _copied(copy_ns: float, copy_bytes: float | None, copies: float, **_: Any) -> str:
    """Return what is copied in a step, where that is known."""
    if not copies or not copy_bytes:
        return ""
    return f", {size(copy_bytes)}{f' at {rate(copy_bytes / copy_ns * 1e9)}' if copy_ns else ''}"


def _waits(length: str | None, idle_ns: float, idle_pct: float, step_ns: float, **_: Any) -> str:
    of = f"the {duration(step_ns)} captured" if length == "capture" else f"a step of {duration(step_ns)}"
    return f"the GPU waits {duration(idle_ns)} of {of}, {percent(idle_pct)}"


def _gap(gap_ns: float | None, before: str | None, idle_ns: float, **_: Any) -> str:
    if gap_ns is None:
        return ""
    longer = " under the profiler" if gap_ns > idle_ns else ""  # which slowed the host
    ends = f"ends with {shorten(before, NAME_WIDTH)}" if before else "lasts to the end"
    return f"the longest gap{longer}, {duration(gap_ns)}, {ends}"


def _why_untold(recorded: bool) -> str:
    return "no event of the host" if recorded else "the host's work was not recorded"


def _untold(work: HostWork, recorded: bool, unknown_pct: float, profiler_pct: float = 0.0, **_: Any) -> Iterator[str]:
    """Yield what share of the waiting is the profiler's, or nothing tells of, where noticeable and not said already."""
    if profiler_pct >= LEAST_PCT:
        yield f"{percent(profiler_pct)} of it the profiler itself takes"
    if work != "unknown" and unknown_pct >= LEAST_UNKNOWN_PCT:
        yield f"{percent(unknown_pct)} of it: {_why_untold(recorded)}"


SAYS: Final[RunSays] = {"feed_gpu": _feed_gpu}


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


def of_step(at_most_ns: float, at_most_pct: float, step_ns: float, **_: Any) -> str:
    """Return the words for the most that an item can save of a step."""
    return f"at most {duration(at_most_ns)} of a step of {duration(step_ns)}, {percent(at_most_pct)}"
