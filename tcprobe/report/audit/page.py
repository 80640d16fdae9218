"""An audit as a page, for a pull request: the count, what to change first, every finding, what figures rest on."""

from __future__ import annotations

from typing import Final

from tcprobe.report.audit import fold, unjudged, words
from tcprobe.report.audit.spec import AuditSpec
from tcprobe.report.blocks import (
    Block,
    Cell,
    ColumnHead,
    Folded,
    Heading,
    Lines,
    Section,
    TextLine,
    TextPart,
    wrapped_line,
)
from tcprobe.report.formatting import relative
from tcprobe.schema.finding import SEVERITIES, Audited, AuditReport, Finding

MOST_GAINS: Final = 5


def page(report: AuditReport, spec: AuditSpec) -> list[Block]:
    """Return the blocks of a page."""
    told, left = fold.split(fold.folded(words.rows(report)), spec.verbose)
    return [
        Heading("Layer sizes and precision", 2),
        Lines((_count(report),)),
        _paragraphs(words.gains(report, MOST_GAINS)),
        _table(told, spec),
        _best_left(left),
        _bullets(_broken(report, spec)),
        Folded("What this rests on", tuple(_limits(report))),
    ]


def _paragraphs(texts: list[str]) -> Lines:
    return Lines(tuple(map(wrapped_line, texts)))


def _bullets(texts: list[str]) -> Lines:
    return Lines(tuple(map(wrapped_line, texts)), bullets=True)


def _count(report: AuditReport) -> TextLine:
    tally = TextPart(words.tally(report), "strong")
    match words.around_fix(report):
        case (before, behind):
            return TextLine((tally, TextPart(f" {before}"), TextPart("--fix", "code"), TextPart(behind)))
        case _:
            return TextLine((tally,))


def _table(found: list[fold.FoldedFindings], spec: AuditSpec) -> Section:
    """Return the findings: errors, warnings, notes; within each the largest saving first, then by place."""
    headings = (
        ColumnHead("severity"),
        ColumnHead("where"),
        ColumnHead("rule"),
        ColumnHead("finding"),
        ColumnHead("now -> suggested"),
        ColumnHead("saves"),
        ColumnHead("of the step", right=True),
    )
    return Section("", headings, tuple(_cells(f.audited, f.finding, spec) for f in sorted(found, key=_rank)))


def _best_left(left: list[fold.FoldedFindings]) -> Lines:
    """Return how many sizes are left out of the table, as they are best left alone; no line without any."""
    if not left:
        return Lines(())
    said = TextPart(f"{fold.best_left(left)}; "), TextPart("--verbose", "code"), TextPart(" lists them.")
    return Lines((TextLine(said),))


def _rank(told: fold.FoldedFindings) -> tuple[int, float]:
    finding = told.finding
    return SEVERITIES.index(finding.severity or "note"), -(finding.saving_ns.mid if finding.saving_ns else 0.0)


def _cells(audited: Audited, finding: Finding, spec: AuditSpec) -> tuple[Cell | str, ...]:
    """Return the cells of a finding; its sentence leaves out severity and saving, which have columns of their own."""
    place = words.location_text(finding.place, audited.file, spec.cwd)
    saved, pct = finding.saving_ns, finding.saving_pct
    return (
        finding.severity or "unknown",
        place,
        finding.code,
        words.message_with_reason(finding),
        words.change(finding) or "-",
        Cell(words.saving_per_step(audited, finding) or "-", saved.mid if saved else None, "ns"),
        Cell("-" if pct is None or pct.mid <= 0 else words.floor_percent(pct.mid), pct.mid if pct else None, "pct"),
    )


def _broken(report: AuditReport, spec: AuditSpec) -> list[str]:
    unused = [text for text in (words.gone(report),) if text]
    unused += [
        f"{words.location_text(place, place.file, spec.cwd)}: unused suppression: {text}"
        for place, text in report.unused
    ]
    return unused + [
        f"{relative(path, spec.cwd)}: {said}: {words.reason(path, why)}"
        for said, files in (("not audited", report.failed), ("nothing judged", unjudged.failing(report)))
        for path, why in files
    ]


def _limits(report: AuditReport) -> list[Lines]:
    reasons = unjudged.unseen(report)
    many = [f"Not judged: {sum(count for _, count in reasons):,}"] if reasons else []
    foreign = [text for text in (unjudged.line(report), unjudged.passing(report)) if text]
    uncosted = [text for text in (words.uncosted(report),) if text]
    closing = [*foreign, *uncosted, *words.limit_notes(report), *words.predicted_for(report)]
    return [_paragraphs(many), _bullets([f"{why} ({count:,})" for why, count in reasons]), _paragraphs(closing)]
