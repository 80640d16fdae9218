"""`report` with what a gate asks of it: the change from another run, and what became of conditions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tcprobe.analysis import Options
from tcprobe.flows.report import make_report
from tcprobe.report.document import Added
from tcprobe.schema.changes.condition import Condition, Verdict
from tcprobe.schema.profile import Profile


@dataclass(frozen=True, slots=True)
class JudgedReport:
    """A run's profile and what is asked of it.

    Attributes:
        profile: analysed.
        added: what the report says of the other run and of conditions.
        verdicts: what became of the conditions.
        names: of the other run and this one, in this order; empty where there is no other.
    """

    profile: Profile
    added: Added = field(default_factory=Added)
    verdicts: tuple[Verdict, ...] = ()
    names: tuple[str, ...] = ()


def make_judged_report(
    path: Path,
    options: Options,
    other: Path | None = None,
    conditions: Sequence[Condition] = (),
    top: int | None = None,
) -> JudgedReport:
    """Read the profile at `path`, hold it against the one at `other` if there is one, and against conditions.

    Args:
        path: a run folder, a profile file, or a directory with one.
        options: as for `make_report`; they hold for both profiles.
        other: likewise; None compares nothing.
        conditions: those that ask for a change need `other`.
        top: rows of each table of what changed (`tcprobe.report.compare.document.against`).

    Raises:
        InputError: a profile cannot be used.
        UsageError: `other` leads where `path` does, a path has several runs, or an option does not fit a profile.
        MeasurementFailed: a GPU was used but no kernel was recorded.
    """
    if other is None and not conditions:
        return JudgedReport(make_report(path, options))
    # What compares is loaded only here: a plain report is not to wait for it.
    from tcprobe.flows.compare import make_comparison, refuse_same
    from tcprobe.flows.conditions.judge import judge_run
    from tcprobe.report.compare.document import against, held

    if other is None:
        profile = make_report(path, options)
        verdicts = judge_run(conditions, profile)
        return JudgedReport(profile, Added(data=held(verdicts)), verdicts)
    refuse_same([other, path])
    found = make_comparison([other, path], options)
    profile = found.profiles[1]
    verdicts = judge_run(conditions, profile, found)
    return JudgedReport(profile, against(found, verdicts, top), verdicts, found.names)
