"""The order of a report, the same in text and Markdown: the answer, why, what first, notes, then tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from tcprobe.report.base import ReportSpec
from tcprobe.report.formatting import number, plain, visible
from tcprobe.report.grid import Head, Section
from tcprobe.report.run import advice, findings, headline, views
from tcprobe.report.run.sections import section
from tcprobe.report.run.window import summed
from tcprobe.schema.columns import Value
from tcprobe.schema.profile import Profile

Said: TypeAlias = tuple[str, str, str | None]
FIRST_SCREEN_ROWS = 5


@dataclass(frozen=True, slots=True)
class Screen:
    """A whole report.

    Attributes:
        facts: what was profiled, as (label, text).
        answer: the headline sentences.
        steps: what to do first, in sentences.
        figures: the headline figures.
        warnings: (level, message, remedy) of each error and warning.
        why: what keeps ops off the Tensor Cores, the costliest of them, bad sizes.
        notes: likewise of each note.
        tables: the sections below.
        absent: (table, reason) of each table that was to be shown and is not there.
    """

    facts: tuple[tuple[str, str], ...]
    answer: tuple[str, ...]
    steps: tuple[str, ...]
    figures: tuple[Section, ...]
    warnings: tuple[Said, ...]
    why: tuple[Section, ...]
    notes: tuple[Said, ...]
    tables: tuple[Section, ...]
    absent: tuple[tuple[str, str], ...]


def screen(profile: Profile, spec: ReportSpec) -> Screen:
    """Return what a report shows; with ``spec.by`` only those tables follow the headline."""
    found = [(view, section(profile, view, spec)) for view in _views(profile, spec)]
    return Screen(
        tuple(headline.facts(profile)),
        tuple(headline.answer(profile)),
        tuple(advice.steps(profile)),
        () if spec.by else tuple(s for s in (headline.figures(profile, first=True),) if s),
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


def _notes(profile: Profile, levels: tuple[str, ...]) -> tuple[Said, ...]:
    chosen = [note for note in headline.notes(profile) if note.level in levels]
    return tuple((n.level, visible(n.message), n.remedy and visible(n.remedy)) for n in chosen)


def _views(profile: Profile, spec: ReportSpec) -> list[views.View]:
    if spec.by:
        return [views.BY[name] for name in spec.by]
    shown = [*views.BY.values()]
    if np.isnan(profile.require("ops").numbers("host_ns")).all():
        shown.append(views.HOST_OPS)
    return shown if len(profile.require("kernels")) else [*shown, views.GEMMS]


def _worth_saying(profile: Profile, view: views.View, spec: ReportSpec) -> bool:
    without_gpu = profile.metadata.gpu_used is False and view.table in ("kernels", "devices")
    return bool(spec.by) or (view.table in profile.absent and not without_gpu)


def _reason(profile: Profile, view: views.View) -> str:
    if view.table in profile.absent:
        return visible(profile.absent[view.table])
    return "the profile has none" if profile.table(view.table) is not None else "this source does not give them"


def _why(profile: Profile, spec: ReportSpec) -> list[Section]:
    rows = None if spec.top is None else min(FIRST_SCREEN_ROWS, spec.top)
    cost, over = profile.off, summed(profile)
    sections = [findings.causes(cost, rows, over), findings.first(cost, rows, over)] if cost else []
    return [s for s in (*sections, findings.bad_sizes(profile, spec.top)) if s]


def _rest(profile: Profile, spec: ReportSpec) -> list[Section]:
    return [s for s in (headline.figures(profile, first=False), _metrics(profile), _reported(profile, spec)) if s]


def _metrics(profile: Profile) -> Section | None:
    """Return the last value of each figure that the workload logged."""
    last = {row["name"]: row for row in profile.require("metrics").rows()}
    heads = (Head("figure"), Head("last value", right=True), Head("unit"))
    cells = tuple((plain(name), number(float(row["value"] or 0), 10), plain(row["unit"])) for name, row in last.items())
    return Section("Logged by the workload", heads, cells) if cells else None


def _reported(profile: Profile, spec: ReportSpec) -> Section | None:
    """Return the profiler's own figures, as it gave them."""
    rows = list(profile.require("reported").rows())
    heads = (
        Head("figure", least=24),
        Head("value", right=True),
        Head("unit"),
        Head("source", rank=1, least=24),
    )
    shown = rows[: spec.top]
    cells = tuple((plain(r["metric"]), *_as_given(r), plain(r["source"])) for r in shown)
    left = len(rows) - len(shown)
    notes = (f"({left:,} more; --top 0 shows all)",) if left else ()
    return Section("As the profiler itself reported", heads, cells, notes) if cells else None


def _as_given(row: dict[str, Value]) -> tuple[str, str]:
    """Return value and unit with the digits that the profiler gave, long times in seconds."""
    value, unit = row["value"], plain(row["unit"])
    if value is None:
        return plain(row["text"]), unit
    if unit == "ns" and float(value) >= 1e9:
        return number(float(value) / 1e9, 10), "s"
    return number(float(value), 10), unit
