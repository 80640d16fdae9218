"""`compare` as a function: hold profiles side by side; and `report` against another one, or against conditions.

What compares is loaded only where it is needed: a plain report is not to wait for it.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from tcprobe.analysis import Options
from tcprobe.errors import InputError, MeasurementFailed, UsageError
from tcprobe.flows.report import make_report
from tcprobe.foreign import is_there, real_path
from tcprobe.progress import begin, shown
from tcprobe.report.document import Added
from tcprobe.schema.profile import Profile

if TYPE_CHECKING:
    from tcprobe.schema.comparison import Comparison, Verdict

PREFIX: Final = "baseline:"
"""Before the name of a baseline where a run may stand."""


def make_comparison(
    given: Sequence[Path | Profile], options: Options | None = None, paths: Sequence[Path] = ()
) -> Comparison:
    """Compare profiles, and those at paths, with the first.

    Args:
        given: run folders, profile files, or directories with one, or analysed profiles; two or more.
        options: as for `make_report`; they hold for each of the profiles that are read.
        paths: what all are called after, where some of `given` are no paths.

    Raises:
        InputError: a profile cannot be used.
        UsageError: fewer than two paths, a path has several runs, or an option does not fit a profile; it names which.
        MeasurementFailed: a GPU was used in a run and no kernel was recorded; likewise.
    """
    if len(given) < 2:
        raise UsageError("compare takes two runs or more", "name another run: a run folder or a profile")
    from tcprobe.analysis.compare import compare

    named = paths or [one for one in given if isinstance(one, Path)]
    with shown():
        runs = [one if isinstance(one, Profile) else _read(one, options) for one in given]
        begin("comparing")
        return compare(runs, short_names(named))


def refuse_same(paths: Sequence[Path]) -> None:
    """Refuse to compare a run with itself.

    Raises:
        UsageError: two of the paths lead to the same place.
    """
    seen: dict[str, Path] = {}
    for path in paths:
        place = os.path.realpath(path)
        if place in seen:
            also = "" if seen[place] == path else f" ({seen[place]})"
            raise UsageError(f"{path}{also} is given twice: a run does not differ from itself", "name two runs")
        seen[place] = path


def _read(path: Path, options: Options | None) -> Profile:
    if str(path).startswith(PREFIX) and not is_there(path):
        from tcprobe.flows.baselines import named_baseline

        return named_baseline(str(path).removeprefix(PREFIX)).profile
    try:
        return make_report(path, options)
    except InputError:
        raise  # they name the file
    except (UsageError, MeasurementFailed) as error:
        raise type(error)(f"in {path}: {error.message}", error.hint) from error


def short_names(paths: Sequence[Path]) -> tuple[str, ...]:
    """Return what to call each path: its last part where that is clear, else the path, numbered where it repeats."""
    last = [path.name or real_path(path).name or str(path) for path in paths]
    same = Counter(last)
    names = [name if same[name] == 1 else str(path) for name, path in zip(last, paths, strict=True)]
    whole, seen = Counter(names), Counter[str]()
    found = []
    for name in names:
        seen[name] += 1
        found.append(name if whole[name] == 1 else f"{name} ({seen[name]})")
    return tuple(found)


class JudgedReport(NamedTuple):
    """A run's profile and what is asked of it."""

    profile: Profile  # analysed
    added: Added  # what the report says of the other run and of conditions
    verdicts: tuple[Verdict, ...] = ()  # what became of the conditions
    names: tuple[str, ...] = ()  # of the other run and this one, in this order; empty where there is no other


def make_judged_report(
    path: Path,
    options: Options,
    other: Path | None = None,
    fail_if: Sequence[str] = (),
    top: int | None = None,
    counters: Path | None = None,
    scheduler: str | None = None,
) -> JudgedReport:
    """Read the profile at `path`, hold it against the one at `other` if there is one, and against conditions.

    Args:
        path: a run folder, a profile file, or a directory with one.
        options: as for `make_report`; they hold for both profiles.
        other: likewise; None compares nothing.
        fail_if: conditions as they are typed; those that ask for a change need `other`.
        top: rows of each table of what changed (`tcprobe.report.compare.document.against`).
        counters: as for `make_report`, of the profile at `path`.
        scheduler: as for `make_report`, of `path`.

    Raises:
        InputError: a profile cannot be used.
        UsageError: `other` leads where `path` does, a path has several runs, or an option or condition does not fit.
        MeasurementFailed: a GPU was used but no kernel was recorded.
    """
    if other is None and not fail_if:
        return JudgedReport(make_report(path, options, counters, scheduler), Added())
    from tcprobe.flows.conditions import judge_run, parse_conditions
    from tcprobe.report.compare.document import against, held

    conditions = parse_conditions(fail_if, changes=other is not None)
    if other is None:
        profile = make_report(path, options, counters, scheduler)
        verdicts = judge_run(conditions, profile)
        return JudgedReport(profile, Added(data=held(verdicts)), verdicts)
    refuse_same([other, path])
    mine = path if counters is None else make_report(path, options, counters)
    found = make_comparison([other, mine], options, [other, path])
    profile = found.profiles[1]
    verdicts = judge_run(conditions, profile, found)
    return JudgedReport(profile, against(found, verdicts, top), verdicts, found.names)
