"""List what differs between the settings of several runs, and what that means for comparing them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import Any, Final

from tcprobe.analysis.compare.basis import UNNAMED, Run, gpus_of
from tcprobe.analysis.summary.waiting import steps_of
from tcprobe.schema.changes.comparison import OTHER_WORK_PCT, ComparedFigure
from tcprobe.schema.profile import Note

FROM_RECORD: Final = ("driver", "keras", "python", "iter_start", "iter_stop", "host")
PROFILERS: Final = ("dlprof", "nsight systems", "nsight compute", "xspace")
REAL: Final = ("faster", "slower")
Settings = tuple[tuple[str, tuple[str | None, ...]], ...]


def settings_of(runs: Sequence[Run]) -> Settings:
    """Return each setting that differs between the runs, with its value in each; None where a run does not tell it."""
    told = [dict(_settings(run)) for run in runs]
    names = dict.fromkeys(name for found in told for name in found)
    rows = ((name, tuple(found.get(name) for found in told)) for name in names)
    return tuple((name, values) for name, values in rows if len(set(values)) > 1)


def _settings(run: Run) -> Iterator[tuple[str, str | None]]:
    metadata, record = run.profile.metadata, run.profile.metadata.run
    gpus = gpus_of(run.profile)
    yield "gpu", ", ".join(_times(name, gpus.count(name)) for name in dict.fromkeys(gpus)) or _cpu(metadata.gpu_used)
    yield "precision", metadata.precision
    yield "xla", _text(metadata.xla)
    yield "profiler", metadata.profiler
    yield "framework", metadata.framework
    for name in FROM_RECORD:
        yield name, _text(record.get(name))
    if metadata.command:
        yield "command", shlex.join(metadata.command)
    environment = record.get("environment")
    for name, value in sorted(environment.items()) if isinstance(environment, dict) else ():
        yield f"environment.{name}", _text(value)


def _times(name: str, count: int) -> str:
    return name if count == 1 else f"{count} x {name}"


def _cpu(gpu_used: bool | None) -> str | None:
    return "none" if gpu_used is False else None


def _text(value: Any) -> str | None:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else None if value is None else str(value)


def notes_of(runs: Sequence[Run], names: Sequence[str], figures: Sequence[ComparedFigure]) -> Iterator[Note]:
    """Yield what limits the comparison."""
    metadata = [run.profile.metadata for run in runs]
    unmarked = [name for name, run in zip(names, runs, strict=True) if not steps_of(run.profile)]
    if unmarked and any(one.metric in ("kernel_time_ns", "memory_time_ns") for one in figures):
        yield _without_steps(unmarked)
    if _differ(_models(run) for run in runs):
        yield Note("other-gpus", "the runs used other GPUs: times differ for that reason too")
    if _differ(_profiler(one.profiler) for one in metadata):
        said = "the profilers differ, and each slows a run in its own way"
        yield Note("other-profilers", said, "compare runs of one profiler")
    if cut := [name for name, one in zip(names, metadata, strict=True) if one.partial]:
        yield Note("partial-runs", f"cut off, and compared as far as recorded: {', '.join(cut)}")
    if tuned := [name for name, run in zip(names, runs, strict=True) if run.profile.tuning is not None]:
        said = f"autotuning is among the counted kernels: {', '.join(tuned)}"
        yield Note("autotuning-compared", said, "profile later steps")
    yield from _other_work(figures)
    if alike := [names[number] for number in _real(figures) if not settings_of((runs[0], runs[number]))]:
        of = f" of {', '.join(alike)} and {names[0]}" if len(runs) > 2 else ""
        said = (
            f"the steps{of} differ, and nothing that is recorded of these runs does: the machine may have been busier"
        )
        yield Note("nothing-else-differs", said, "run each again, in turn")


def _models(run: Run) -> tuple[str, ...] | None:
    """Return the GPUs that ran kernels; None where one of them is not named, or none ran: that differs from nothing."""
    gpus = gpus_of(run.profile)
    return None if UNNAMED in gpus else gpus or None


def _profiler(name: str | None) -> str | None:
    """Return whose profiler it is, without its version."""
    text = (name or "").lower()
    return next((kind for kind in PROFILERS if kind in text), text) or None


def _real(figures: Sequence[ComparedFigure]) -> Iterator[int]:
    """Yield the numbers of the runs whose steps differ from those of the first by more than noise."""
    changes = next((one.changes for one in figures if one.metric == "step_time_ns"), ())
    yield from (run for run, change in enumerate(changes, 1) if change.interval and change.difference in REAL)


def _without_steps(names: Sequence[str]) -> Note:
    said = f"no steps are marked in {', '.join(names)}: sums are of the whole captures, which may hold other work"
    return Note("compared-whole", said, "a run folder of tcprobe profile marks steps; --step-range does in a profile")


def _other_work(figures: Sequence[ComparedFigure]) -> Iterator[Note]:
    """Yield a note where the steps multiply more or less than those of the first run."""
    flops = next((one for one in figures if one.metric == "flops_per_step"), None)
    changes = [] if flops is None else [change.pct for change in flops.changes if change.pct is not None]
    most = max(changes, key=abs, default=0.0)
    if abs(most) > OTHER_WORK_PCT:
        said = f"a step does other work: {most:+.3g} % FLOPs; hold throughput against throughput, not steps"
        yield Note("other-work", said)


def _differ(values: Iterator[Any] | Any) -> bool:
    """Return whether known values differ."""
    return len({value for value in values if value is not None}) > 1
