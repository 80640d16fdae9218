"""The runs of a comparison: of how many steps their sums are, how their settings differ, and what that means."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from tcprobe.analysis.validity import NOT_FINITE
from tcprobe.schema.comparison import OTHER_WORK_PCT, ComparedFigure, ComparedRange
from tcprobe.schema.profile import Note, Profile
from tcprobe.schema.records import text_of

UNNAMED: Final = "unknown"
"""What to call a GPU without a name."""
FROM_RECORD: Final = ("driver", "keras", "python", "iter_start", "iter_stop", "host", "numerics")
PROFILERS: Final = ("dlprof", "nsight systems", "nsight compute", "xspace")
CLOCKS: Final = {"sm_clock_mhz": "SM clock", "memory_clock_mhz": "memory clock"}
LEAST_CLOCK: Final = 0.03  # of the higher one: medians of a run that is repeated come closer
LEAST_RANGE: Final = 0.2  # of the longer one: a change of a range that is worth being named
REAL: Final = ("faster", "slower")
OTHER_VERSION: Final = "baseline-version"
"""Code of the note that another version of tcprobe wrote a baseline."""
Settings = tuple[tuple[str, tuple[str | None, ...]], ...]


class Run(NamedTuple):
    """One run of a comparison."""

    profile: Profile  # analysed
    # what the sums over its window are multiplied by: one over its counted steps, 1.0 where whole captures are held
    # against one another
    share: float


def runs_of(profiles: Sequence[Profile]) -> tuple[tuple[Run, ...], bool]:
    """Return the runs, and whether their sums are of a step: only where the steps of all of them are known."""
    steps = [profile.summed_steps for profile in profiles]
    per_step = all(steps)
    shares = (1.0 / count if per_step and count else 1.0 for count in steps)
    return tuple(Run(profile, share) for profile, share in zip(profiles, shares, strict=True)), per_step


def _gpus(profile: Profile) -> tuple[str, ...]:
    """Return the names of the GPUs that ran kernels, sorted; a GPU without a name is ``unknown``."""
    return tuple(sorted(str(gpu["name"] or UNNAMED) for gpu in profile.active_gpus))


def settings_of(runs: Sequence[Run]) -> Settings:
    """Return each setting that differs between the runs, with its value in each; None where a run does not tell it.

    What a baseline leaves out differs in nothing.
    """
    settings = [_settings(run) for run in runs]
    names = dict.fromkeys(name for each in settings for name in each)
    rows = ((name, tuple(each.get(name) for each in settings)) for name in names)
    left_out = ["figures_only" in run.profile.traits for run in runs]
    other = (
        (name, values)
        for name, values in rows
        if len({v for v, out in zip(values, left_out, strict=True) if v is not None or not out}) > 1
    )
    clocks = ((CLOCKS[column], mhz) for column, mhz in clocks_of(runs))
    told = ((name, tuple(None if one is None else f"{one:,.0f} MHz" for one in mhz)) for name, mhz in clocks)
    return (*told, *other)


def clocks_of(runs: Sequence[Run]) -> Iterator[tuple[str, tuple[float | None, ...]]]:
    """Yield each clock that differs between runs on GPUs of one model: the mean of the GPUs of each run that ran.

    Those in the window count: samples of a whole run are also of its idle time.
    """
    if _differ(_models(run) for run in runs):
        return
    for column in CLOCKS:
        each = [
            [row[column] if row["state_basis"] == "window" else None for row in run.profile.active_gpus] for run in runs
        ]
        means = tuple(
            sum(float(v or 0) for v in values) / len(values) if values and None not in values else None
            for values in each
        )
        told = [one for one in means if one is not None]
        if told and max(told) - min(told) > LEAST_CLOCK * max(told):
            yield column, means


def _settings(run: Run) -> dict[str, str | None]:
    metadata, record = run.profile.metadata, run.profile.metadata.run
    gpus, held = Counter(_gpus(run.profile)), {name: record.get(name) for name in ("environment", "constants")}
    named = ", ".join(name if count == 1 else f"{count} x {name}" for name, count in gpus.items())
    settings = {
        "gpu": named or ("none" if metadata.gpu_used is False else None),
        "precision": metadata.computes_in,
        "xla": _text(metadata.xla),
        "profiler": metadata.profiler,
        "framework": metadata.framework,
        **{name: _text(record.get(name)) for name in FROM_RECORD},
    }
    if metadata.command:
        settings["command"] = shlex.join(metadata.command)
    for kind, values in held.items():
        variables = sorted(values.items()) if isinstance(values, dict) else ()
        settings |= {f"{kind}.{name}": _text(value) for name, value in variables}
    return settings


def _text(value: Any) -> str | None:
    return ("yes" if value else "no") if isinstance(value, bool) else text_of(value)


def notes_of(
    runs: Sequence[Run], names: Sequence[str], figures: Sequence[ComparedFigure], ranges: Sequence[ComparedRange] = ()
) -> Iterator[Note]:
    """Yield what limits the comparison."""
    metadata = [run.profile.metadata for run in runs]
    changes = {one.metric: one.changes for one in figures}
    unmarked = [name for name, run in zip(names, runs, strict=True) if not run.profile.summed_steps]
    if unmarked and changes.keys() & {"kernel_time_ns", "memory_time_ns"}:
        yield Note(
            "compared-whole",
            f"no steps are marked in {', '.join(unmarked)}: sums are of the whole captures, which may hold other work",
            "a run folder of tcprobe profile marks steps; --step-range does in a profile",
        )
    if _differ(_models(run) for run in runs):
        yield Note("other-gpus", "the runs used other GPUs: times differ for that reason too")
    for column, mhz in clocks_of(runs):
        each = ", ".join(f"{name} {one:,.0f} MHz" for name, one in zip(names, mhz, strict=True) if one is not None)
        message = f"the {CLOCKS[column]} differs ({each}): the difference in time may come of that"
        yield Note("clocks-differ", message, "set it for all runs, as with nvidia-smi --lock-gpu-clocks, and run again")
    if _differ(_profiler(one.profiler) for one in metadata):
        message = "the profilers differ, and each slows a run in its own way"
        yield Note("other-profilers", message, "compare runs of one profiler")
    counting = [name for name, one in zip(names, metadata, strict=True) if one.run.get("numerics")]
    if 0 < len(counting) < len(runs):
        message = f"--numerics slowed the steps of {', '.join(counting)} alone: no difference of times is the change's"
        yield Note("gradients-counted", message, "profile again without it")
    if cut := [name for name, one in zip(names, metadata, strict=True) if one.partial]:
        yield Note("partial-runs", f"cut off, and compared as far as recorded: {', '.join(cut)}")
    for name, one in zip(names, metadata, strict=True):
        told = (note for note in one.notes if note.code in (NOT_FINITE, OTHER_VERSION))
        yield from (replace(note, message=f"{name}: {note.message}") for note in told)
    if tuned := [name for name, run in zip(names, runs, strict=True) if run.profile.tuning is not None]:
        message = f"autotuning is among the counted kernels: {', '.join(tuned)}"
        yield Note("autotuning-compared", message, "profile later steps")
    flops = [change.pct for change in changes.get("flops_per_step", ()) if change.pct is not None]
    if abs(most := max(flops, key=abs, default=0.0)) > OTHER_WORK_PCT:
        message = f"a step does other work: {most:+.3g} % FLOPs; hold throughput against throughput, not steps"
        yield Note("other-work", message)
    steps = enumerate(changes.get("step_time_ns", ()), 1)
    real = [run for run, change in steps if change.interval and change.difference in REAL]
    if alike := [names[run] for run in real if not settings_of((runs[0], runs[run]))]:
        of = f" of {', '.join(alike)} and {names[0]}" if len(runs) > 2 else ""
        if (range_ := next((one for one in ranges if _large(one)), None)) is not None:
            means = " -> ".join("none" if ns is None else f"{ns / 1e6:.3g} ms" for ns in range_.sides)
            message = (
                f"the steps{of} differ, no recorded setting does, and the range {range_.name} does above all: {means}"
            )
            yield Note("ranges-differ", message)
        else:
            message = (
                f"the steps{of} differ, and nothing that is recorded of these runs does: "
                "the machine may have been busier"
            )
            yield Note("nothing-else-differs", message, "run each again, in turn")


def _large(one: ComparedRange) -> bool:
    """Return whether the length of a range changed by more than noise of a busy machine explains."""
    changes = (abs(change) for change in one.changes if change is not None)
    return max(changes, default=0.0) >= LEAST_RANGE * max(side for side in one.sides if side is not None)


def _models(run: Run) -> tuple[str, ...] | None:
    """Return the GPUs that ran kernels; None where one of them is not named, or none ran: that differs from nothing."""
    gpus = _gpus(run.profile)
    return None if UNNAMED in gpus else gpus or None


def _profiler(name: str | None) -> str | None:
    """Return whose profiler it is, without its version."""
    text = (name or "").lower()
    return next((kind for kind in PROFILERS if kind in text), text) or None


def _differ(values: Iterable[Any]) -> bool:
    """Return whether known values differ."""
    return len({value for value in values if value is not None}) > 1
