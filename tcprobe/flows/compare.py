"""`compare` as a function: open and analyse several profiles, and hold them side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tcprobe.analysis import Options
from tcprobe.analysis.compare import compare
from tcprobe.errors import InputError, MeasurementFailed, UsageError
from tcprobe.flows.conditions import judge_comparison, judge_run
from tcprobe.flows.report import make_report
from tcprobe.schema.changes.comparison import Comparison
from tcprobe.schema.changes.condition import Condition, Verdict
from tcprobe.schema.profile import Profile


def make_comparison(paths: Sequence[Path], options: Options | None = None) -> Comparison:
    """Read the profiles at `paths` and compare the others with the first.

    Args:
        paths: run folders, profile files, or directories with one; two or more.
        options: as for `make_report`; they hold for each of the profiles.

    Raises:
        InputError: a profile cannot be used.
        UsageError: fewer than two paths, a path has several runs, or an option does not fit a profile; it names which.
        MeasurementFailed: a GPU was used in a run and no kernel was recorded; likewise.
    """
    return compare_all(paths, paths, options)


def compare_all(given: Sequence[Path | Profile], paths: Sequence[Path], options: Options | None = None) -> Comparison:
    """Compare profiles, and those at paths, with the first; `paths` are what all of them are called after.

    Raises:
        As `make_comparison`.
    """
    if len(given) < 2:
        raise UsageError("compare takes two runs or more", "as in: tcprobe compare RUN_A RUN_B")
    return compare([one if isinstance(one, Profile) else _read(one, options) for one in given], short_names(paths))


def judged(
    profile: Profile, path: Path, against: Path | None, conditions: Sequence[Condition], options: Options
) -> tuple[Comparison | None, tuple[Verdict, ...], tuple[str, ...]]:
    """Hold the report of a run against another one and against conditions.

    Args:
        profile: of the run, analysed.
        path: of the run.
        against: another run or profile; None compares nothing.
        conditions: as `read_conditions` gave them.
        options: how to read the other one.

    Returns:
        The comparison (the other run first), what became of each condition, and what the runs are called.

    Raises:
        InputError: the other one cannot be used.
        UsageError: a condition names no figure.
    """
    if against is None:
        return None, judge_run(profile, conditions), ("",)
    comparison = compare([_read(against, options), profile], short_names([against, path]))
    return comparison, judge_comparison(comparison, conditions), comparison.names


def _read(path: Path, options: Options | None) -> Profile:
    try:
        return make_report(path, options)
    except InputError:
        raise  # they name the file
    except (UsageError, MeasurementFailed) as error:
        raise type(error)(f"in {path}: {error.message}", error.hint) from error


def short_names(paths: Sequence[Path]) -> tuple[str, ...]:
    """Return what to call each path: its last part where that is clear, else the path, numbered where it repeats."""
    last = [path.name or path.resolve().name or str(path) for path in paths]
    same = Counter(last)
    names = [name if same[name] == 1 else str(path) for name, path in zip(last, paths, strict=True)]
    whole, seen = Counter(names), Counter[str]()
    found = []
    for name in names:
        seen[name] += 1
        found.append(name if whole[name] == 1 else f"{name} ({seen[name]})")
    return tuple(found)
