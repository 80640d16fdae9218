"""What a run's report shows to people: the answer, why, what to do first, notes, then tables."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tcprobe.report.blocks import Cell, ColumnHead, Facts, Lines, NumberedList, Remark, Remarks, Section, wrapped_line
from tcprobe.report.formatting import any_text, full_number
from tcprobe.report.run import advice, findings, headline, views
from tcprobe.report.run.base import View
from tcprobe.report.run.causes.table import cause_table
from tcprobe.report.run.sections import section
from tcprobe.report.run.spec import ReportSpec
from tcprobe.report.run.whatif.table import what_if_table
from tcprobe.report.run.window import counted_phase
from tcprobe.schema.columns import Row
from tcprobe.schema.profile import Profile

FIRST_SCREEN_ROWS = 5
MOST_LISTED = 100  # notes, and figures that the workload logged: a run has a dozen
NOTICEABLE_PCT = 10.0


@dataclass(frozen=True, slots=True)
class Screen:
    """All parts of a report.

    Attributes:
        facts: what was profiled.
        answer: the headline sentences.
        steps: what to do first.
        figures: the headline figures; the phases of a run that has several.
        warnings: errors and warnings.
        why: what changes are predicted to give, what keeps ops off the Tensor Cores, the costliest of them, bad sizes.
        notes: what else to know.
        tables: the sections after these.
        absent: (table, reason) for each table that should be shown but is missing.
    """

    facts: Facts
    answer: Lines
    steps: NumberedList
    figures: tuple[Section, ...]
    warnings: Remarks
    why: tuple[Section, ...]
    notes: Remarks
    tables: tuple[Section, ...]
    absent: tuple[tuple[str, str], ...]


def screen(profile: Profile, spec: ReportSpec) -> Screen:
    """Return the parts of a report; with ``spec.by`` only those tables follow the headline."""
    found = [(view, section(profile, view, spec.rows_for_people)) for view in _views(profile, spec)]
    return Screen(
        Facts(tuple(headline.facts(profile))),
        _answer(profile),
        NumberedList(advice.title(profile), advice.with_codes(profile)),
        () if spec.by else tuple(s for s in (headline.figures(profile, first=True), _phases(profile, spec)) if s),
        _notes(profile, ("error", "warning")),
        () if spec.by else tuple(_why(profile, spec)),
        _notes(profile, ("note",)),
        tuple([s for _, s in found if s] + ([] if spec.by else _rest(profile, spec))),
        tuple(
            (view.table, _reason(profile, view))
            for view, s in found
            if s is None and _worth_saying(profile, view, spec)
        ),
    )


def _answer(profile: Profile) -> Lines:
    first, *rest = headline.answer(profile)
    return Lines((wrapped_line(first, "strong"), *map(wrapped_line, rest)))


def _notes(profile: Profile, levels: tuple[str, ...]) -> Remarks:
    chosen = [note for note in headline.sorted_notes(profile) if note.level in levels]
    remarks = tuple(Remark(n.level, n.message, n.remedy) for n in chosen[:MOST_LISTED])
    left = len(chosen) - len(remarks)
    more = (Remark("note", f"{left:,} more are not shown here", "--format json lists all"),) if left else ()
    return Remarks(remarks + more)


def _views(profile: Profile, spec: ReportSpec) -> list[View]:
    if spec.by:
        return [views.BY[name] for name in spec.by]
    elsewhere = [views.PHASE_VIEW, views.GAP_VIEW, views.CAUSE_VIEW, views.ADVICE_VIEW]
    if profile.table("range_kernels") is None:
        elsewhere.append(views.RANGE_VIEW)
    shown = [view for view in views.BY.values() if view not in elsewhere]
    if np.isnan(profile.require("ops").numbers("host_ns")).all():
        shown.append(views.HOST_OP_VIEW)
    return shown if len(profile.require("kernels")) else [*shown, views.GEMM_VIEW]


def _phases(profile: Profile, spec: ReportSpec) -> Section | None:
    """Return the phases of a run that has several."""
    return section(profile, views.PHASE_VIEW, spec.rows_for_people) if counted_phase(profile) else None


def _waits(profile: Profile) -> bool:
    """Return whether the GPU waits a noticeable share of a step."""
    return profile.waiting is not None and profile.waiting.idle_pct >= NOTICEABLE_PCT


def _worth_saying(profile: Profile, view: View, spec: ReportSpec) -> bool:
    without_gpu = profile.metadata.gpu_used is False and view.table in ("kernels", "devices")
    return bool(spec.by) or (view.table in profile.absent and not without_gpu)


def _reason(profile: Profile, view: View) -> str:
    if view.table in profile.absent:
        return profile.absent[view.table]
    return "the profile has none" if profile.table(view.table) is not None else "this source does not give them"


def _why(profile: Profile, spec: ReportSpec) -> list[Section]:
    top = spec.rows_for_people
    rows = None if top is None else min(FIRST_SCREEN_ROWS, top)
    cost = profile.off
    blockers = findings.causes(profile, cost, rows) if cost and not cost.measured else None
    sections = [cause_table(profile), blockers, findings.first(profile, cost, rows) if cost else None]
    gaps = section(profile, views.GAP_VIEW, rows) if _waits(profile) else None
    return [s for s in (what_if_table(profile, top), gaps, *sections, findings.bad_size_table(profile, top)) if s]


def _rest(profile: Profile, spec: ReportSpec) -> list[Section]:
    return [s for s in (headline.figures(profile, first=False), _metrics(profile, spec), _reported(profile, spec)) if s]


def _metrics(profile: Profile, spec: ReportSpec) -> Section | None:
    """Return the last value of each figure that the workload logged."""
    last = {row["name"]: row for row in profile.require("metrics").rows()}
    headings = (ColumnHead("figure"), ColumnHead("last value", right=True), ColumnHead("unit"))
    cells = tuple((Cell(any_text(name), name), _logged(row), any_text(row["unit"])) for name, row in last.items())
    kept = cells if spec.top == 0 else cells[:MOST_LISTED]
    left = len(cells) - len(kept)
    notes = (f"({left:,} more; --top 0 shows all)",) if left else ()
    return Section("Logged by the workload", headings, kept, notes) if cells else None


def _logged(row: Row) -> Cell:
    return Cell(full_number(float(row["value"] or 0), 10), row["value"])


def _reported(profile: Profile, spec: ReportSpec) -> Section | None:
    """Return the profiler's own figures, as it reported them."""
    rows = list(profile.require("reported").rows())
    headings = (
        ColumnHead("figure", least=24),
        ColumnHead("value", right=True),
        ColumnHead("unit"),
        ColumnHead("source", rank=1, least=24),
    )
    shown = rows[: spec.rows_for_people]
    cells = tuple((any_text(r["metric"]), *_as_given(r), any_text(r["source"])) for r in shown)
    left = len(rows) - len(shown)
    notes = (f"({left:,} more; --top 0 shows all)",) if left else ()
    return Section("As the profiler itself reported", headings, cells, notes) if cells else None


def _as_given(row: Row) -> tuple[Cell, str]:
    """Return value and unit with the profiler's digits; long times are in seconds."""
    value, unit = row["value"], any_text(row["unit"])
    if value is None:
        return Cell(any_text(row["text"]), row["text"]), unit
    if unit == "ns" and float(value) >= 1e9:
        return Cell(full_number(float(value) / 1e9, 10), value, unit), "s"
    return Cell(full_number(float(value), 10), value), unit
