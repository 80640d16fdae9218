"""`report` as a function: open a profile and analyse it; and the regular expressions that options give."""

from __future__ import annotations

import re
from pathlib import Path
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any, Final

from msgspec.structs import replace

from tcprobe.analysis import Options, analyse
from tcprobe.audit.settings import find_settings
from tcprobe.errors import TcprobeError, UsageError
from tcprobe.progress import shown
from tcprobe.readers.open import find_job, open_profile
from tcprobe.report.run.advice import with_texts
from tcprobe.schema.columns import concatenate
from tcprobe.schema.profile import Note, Profile, ProfileSource

UNBOUNDED: Final = 1000
"""Repeats of so many and more count as unbounded: {0,40} costs a factor, not a power."""
BACKTRACKS: Final = (sre.MAX_REPEAT, sre.MIN_REPEAT)


def checked(option: str, text: str, example: str) -> re.Pattern[str]:
    """Return the regular expression that an option gives.

    Args:
        option: as typed.
        text: what was given.
        example: says how such an expression looks.

    Raises:
        UsageError: it is none, or one that may take forever.
    """
    try:
        pattern = re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise UsageError(f"{option} {text!r}: no regular expression: {error}", example) from error
    if nests(pattern):
        raise UsageError(
            f"{option} {text!r}: a repeat without end holds another: one line may take it forever",
            r"write one class instead, as [\w.]+ for (?:\w+\.)+",
        )
    return pattern


def nests(pattern: re.Pattern[str]) -> bool:
    """Say whether an unbounded repeat that may give back what it took holds another such: (a+)+ takes 2**n steps."""
    return _nests(_parser.parse(pattern.pattern, pattern.flags))


def _nests(items: Any, within: bool = False) -> bool:
    for op, argument in items:
        is_open = op in BACKTRACKS and (argument[1] == sre.MAXREPEAT or argument[1] >= UNBOUNDED)
        if (within and is_open) or any(_nests(body, within or is_open) for body in _bodies(op, argument)):
            return True
    return False


def _bodies(op: Any, argument: Any) -> list[Any]:
    """Return the parts within one part; what a possessive repeat or an atomic group took, it never gives back."""
    if op is sre.SUBPATTERN:
        return [argument[3]]
    if op is sre.BRANCH:
        return list(argument[1])
    if op in (sre.ASSERT, sre.ASSERT_NOT):
        return [argument[1]]
    return [argument[2]] if op in BACKTRACKS else []


STEPS_AS: Final = r"as in --step-range '^step (\d+)'"


def make_report(
    path: Path, options: Options | None = None, counters: Path | None = None, scheduler: str | None = None
) -> Profile:
    """Read the profile at `path` and add what follows from it: summary, kernels, ops, layers, iterations, ...

    For a run folder whose profiler left that to the reader, the iterations that the run asked for count, and the ranges
    that are its steps, unless `options` choose others.

    Args:
        path: a run folder, a profile file, or a directory with one, or with those of the ranks of one job.
        options: iteration window, ranges that are steps, and target GPU; by default window and steps are detected.
        counters: a profile with hardware counters of the same kernels, which decide of their classes.
        scheduler: address of a Dask scheduler whose workers read the ranks of a job; None reads them here.

    Raises:
        InputError: a profile cannot be used.
        UsageError: `path` has several runs, an option does not fit the profile, or the counters are not of its GPU.
        MeasurementFailed: a GPU was used but no kernel was recorded.
    """
    options = options or Options()
    if options.step_range is not None:
        checked("--step-range", options.step_range, STEPS_AS)
    options, notes = _with_words(options)
    with shown():
        if counters is not None:
            return with_texts(analysed(path, options, counters).with_notes(*notes))
        job = find_job(path)
        if job is None and scheduler is not None:
            raise UsageError(f"--scheduler reads the ranks of a job, and {path} holds none", "leave it out")
        if job is not None:
            from tcprobe.flows.job import report_job

            return with_texts(report_job(path, job, options, analysed, scheduler).with_notes(*notes))
        return with_texts(analysed(path, options).with_notes(*notes))


def analysed(path: Path, options: Options, counters: Path | None = None) -> Profile:
    """Open one profile and analyse it, by the steps that its run asked for unless `options` choose others."""
    profile = open_profile(path)
    if counters is not None:
        profile = with_counters(profile, counters)
    return _analysed(profile, options, _asked_of_run(profile, options))


def with_counters(profile: Profile, path: Path) -> Profile:
    """Lay hardware counters over a profile, by kernel, grid and block; however its tool spells the kernel's name.

    Raises:
        InputError: their file cannot be used.
        UsageError: it holds no counter, or they are of a GPU of another compute capability.
    """
    other = open_profile(path)
    table = other.table("kernel_counters")
    if table is None or not len(table):
        hint = "give what ncu --csv --page raw wrote, with the metrics of the tensor pipe"
        raise UsageError(f"{path}: holds no hardware counter of a kernel", hint)
    ours, theirs = (
        {str(row["compute_capability"]) for row in one.require("devices").rows() if row["compute_capability"]}
        for one in (profile, other)
    )
    if ours and theirs and not theirs <= ours:
        named = f"compute capability {', '.join(sorted(theirs))}, this profile's of {', '.join(sorted(ours))}"
        raise UsageError(f"{path}: its counters are of a GPU of {named}", "count on the GPU that was profiled")
    from tcprobe.analysis.compare.names import one_spelling

    launched = profile.require("launches").names("kernel").names or profile.require("kernels").names("kernel").names
    _, spelt = one_spelling([[name for name in launched if name], table.names("kernel").names])
    table = table.with_columns(kernel=table.names("kernel").map(lambda name: spelt[name]))
    before = profile.table("kernel_counters")
    joined = table if before is None else concatenate(table.spec, [table, before])
    source = ProfileSource(other.metadata.format, other.metadata.paths, ("kernel_counters",))
    return profile.with_tables(joined).with_metadata(sources=(*profile.metadata.sources, source))


def _with_words(options: Options) -> tuple[Options, tuple[Note, ...]]:
    """Return the options with what pyproject.toml says of kernels; one that nobody can read costs a note.

    Raises:
        UsageError: its table for tcprobe has a key or a value that it cannot have.
    """
    try:
        return replace(options, kernels=options.kernels or find_settings(Path()).kernels), ()
    except UsageError:
        raise
    except TcprobeError as error:
        return options, (Note("settings-not-read", f"what pyproject.toml says of kernels: {error}", error.hint),)
    except OSError:  # the current folder is gone, and nothing is asked of it
        return options, ()


def _analysed(profile: Profile, options: Options, asked: Options) -> Profile:
    """Analyse what the run asked for; if the profile lacks it, what `options` ask for, with a note of why."""
    try:
        return analyse(profile, asked)
    except UsageError as error:
        if asked == options:
            raise
        if any(note.level == "error" for note in profile.metadata.notes):
            return analyse(profile, options)  # the error says why it is not there
        note = Note(
            "iterations-not-there", f"{error.message}: what the profile itself tells counts instead", error.hint
        )
        return analyse(profile.with_notes(note), options)


def _asked_of_run(profile: Profile, options: Options) -> Options:
    """Return `options` with the steps that the run asked for, as far as its profiler left them to the reader."""
    run = profile.metadata.run
    profiler, ranges = run.get("profiler"), run.get("step_range")
    name = profiler.get("name") if isinstance(profiler, dict) else None
    by_reader = name == "dlprof" or (name == "nsys" and not run.get("window"))
    if options.step_range is None and isinstance(ranges, str):
        options = replace(options, step_range=ranges)
    if not by_reader or options.iter_start is not None or options.iter_stop is not None:
        return options
    start, stop = (run.get(key) for key in ("iter_start", "iter_stop"))
    return replace(
        options,
        iter_start=start if isinstance(start, int) else None,
        iter_stop=stop if isinstance(stop, int) else None,
    )
