"""An audit on a terminal: findings as linters print them, the costliest sizes, the gain, the next command.

Errors and warnings come before notes, each in the order of file and line; what many layers on one line share is
printed once (`tcprobe.report.audit.fold`).
"""

from __future__ import annotations

from typing import Final

from tcprobe.report import formatting as f
from tcprobe.report.audit import fold, unjudged, words
from tcprobe.report.audit.next import next_step
from tcprobe.report.audit.spec import AuditSpec
from tcprobe.report.blocks import Block, Cell, ColumnHead, Lines, Section, Style, TextLine, TextPart, wrapped_line
from tcprobe.schema.finding import Audited, AuditReport, Finding

STYLES: Final[dict[str | None, Style]] = {"error": "error", "warning": "warning", "note": "accent"}
MOST_COSTLY: Final = 5
MOST_REASONS: Final = 4


def screen(report: AuditReport, spec: AuditSpec) -> list[Block]:
    """Return the blocks of the terminal output."""
    found = fold.folded(words.rows(report))
    severe = [f for f in found if not fold.is_note(f)]
    notes = [f for f in found if fold.is_note(f)]
    lines = [
        [_finding(f, spec) for f in severe],
        _notes(notes, spec),
        [*_unused(report, spec), *_failed(report, spec)],
    ]
    closing = [_verbose(report, spec) if spec.verbose else [], _limits(report, spec), _end(report, spec)]
    return [*_lines(lines), *_costliest(found, spec), *_lines(closing)]


def _lines(groups: list[list[TextLine]]) -> list[Lines]:
    return [Lines(tuple(group)) for group in groups]


def _at(place: str, *parts: TextPart | str) -> TextLine:
    """Return a line in the form of linters, which is never wrapped."""
    return TextLine(
        (TextPart(place, "strong"), TextPart(": "), *(TextPart(p) if isinstance(p, str) else p for p in parts))
    )


def _finding(told: fold.FoldedFindings, spec: AuditSpec) -> TextLine:
    """Return ``path:line:col: TC101 [*] sentence``."""
    finding = told.finding
    place = words.location_text(finding.place, told.audited.file, spec.cwd)
    code = TextPart(finding.code, STYLES.get(finding.severity, "dim"))
    star = (" ", TextPart("[*]", "accent")) if finding.fix else ()
    return _at(place, code, *star, f" {told.sentence()}")


def _notes(notes: list[fold.FoldedFindings], spec: AuditSpec) -> list[TextLine]:
    """Return one line per note; if there are many, per file, rule and reason, with all sizes but without layers.

    Sizes that are best left as they are take one line together.
    """
    told, left = fold.split(notes, spec.verbose)
    closing = [TextLine((TextPart(f"{fold.best_left(left)}; --verbose lists them"),))] if left else []
    if spec.verbose or len(told) <= fold.MOST_NOTES:
        return [*(_finding(f, spec) for f in told), *closing]
    title = f"Notes: {sum(f.count for f in told):,}, by reason; --verbose gives each its line"
    grouped = [_reason(group, spec) for group in fold.by_reason(told)]
    return [TextLine((TextPart(title, "strong"),)), *grouped, *closing]


def _reason(group: fold.ReasonGroup, spec: AuditSpec) -> TextLine:
    """Return ``path:lines: TC101 filters=6, 20 (3): why``."""
    lines = ",".join(group.lines)
    where = words.location_text(None, group.file, spec.cwd) + (f":{lines}" if lines else "")
    said = f"{group.sizes}: {group.why}" if group.sizes else group.why
    return _at(where, TextPart(group.code, STYLES["note"]), f" {said}")


def _unused(report: AuditReport, spec: AuditSpec) -> list[TextLine]:
    return [
        _at(words.location_text(place, place.file, spec.cwd), f"unused suppression: {text}")
        for place, text in report.unused
    ]


def _failed(report: AuditReport, spec: AuditSpec) -> list[TextLine]:
    return [
        _at(words.location_text(None, path, spec.cwd), f"{said}: {words.reason(path, why)}")
        for said, files in (("not audited", report.failed), ("nothing judged", unjudged.failing(report)))
        for path, why in files
    ]


def _costliest(found: list[fold.FoldedFindings], spec: AuditSpec) -> list[Section]:
    """Return the table of what costs most; with several models it may mix their steps.

    No table if it would have one row, as that would repeat the finding's line.
    """
    top = words.costliest([(f.audited, f.finding) for f in found], MOST_COSTLY)
    if len(top) < 2:
        return []
    headings = (
        ColumnHead("where", least=16, path=True),
        ColumnHead("rule", rank=3),
        ColumnHead("layer", rank=2, least=12),
        ColumnHead("now -> suggested"),
        ColumnHead("likely", right=True),
        ColumnHead("saves", rank=1),
        ColumnHead("of the step", right=True),
    )
    units = {words.per(audited) for audited, _ in top}
    title = f"Costliest, {units.pop()}" if len(units) == 1 else "Costliest"
    cells = tuple(_cells(audited, f, spec, unit=title == "Costliest") for audited, f in top)
    return [Section(title, headings, cells)]


def _cells(audited: Audited, finding: Finding, spec: AuditSpec, unit: bool) -> tuple[Cell | str, ...]:
    saved, pct = finding.saving_ns, finding.saving_pct
    likely, span = (f.likely(saved), f.range_text(saved)) if saved else ("-", "-")
    return (
        words.location_text(finding.place, audited.file, spec.cwd),
        finding.code,
        Cell(finding.layer or "-", finding.layer),
        words.change(finding) or "-",
        Cell(likely, saved.mid if saved else None, "ns"),
        f"{span} {words.per(audited)}" if unit and saved else span,
        Cell("-" if pct is None else words.floor_percent(pct.mid), pct.mid if pct else None, "pct"),
    )


def _limits(report: AuditReport, spec: AuditSpec) -> list[TextLine]:
    """Return each model's gain, what could not be judged, and what the prediction is for."""
    said = words.gains(report, None if spec.verbose else MOST_COSTLY)
    said += [text for text in (words.uncosted(report),) if text]
    said += _not_judged(report, spec) + words.limit_notes(report)
    said += words.predicted_for(report)
    return [wrapped_line(text, indent="  ") for text in said]


def _not_judged(report: AuditReport, spec: AuditSpec) -> list[str]:
    foreign = [text for text in (unjudged.line(report, spec.verbose), unjudged.passing(report)) if text]
    reasons = unjudged.unseen(report if spec.verbose else unjudged.untold(report))
    if not reasons:
        return foreign
    shown = reasons if spec.verbose else reasons[:MOST_REASONS]
    listed = "; ".join(f"{reason} ({count:,})" for reason, count in shown)
    rest = sum(count for _, count in reasons[len(shown) :])
    more = (f"; other reasons ({rest:,})" if rest else "") + ("" if spec.verbose else ". --verbose lists them")
    many = sum(count for _, count in reasons)
    return [*foreign, f"Not judged, {many:,} thing{'' if many == 1 else 's'}: {listed}{more}."]


def _verbose(report: AuditReport, spec: AuditSpec) -> list[TextLine]:
    """Return what could not be judged, what comments silenced and what the baseline holds, one line each."""
    lines = [
        f"{words.location_text(u.place, a.file, spec.cwd)}: not judged: {u.what}: {u.reason}"
        for a in report.audited
        for u in a.unseen
    ]
    lines += [
        f"{words.location_text(n.place, n.place.file, spec.cwd)}: not judged: {unjudged.phrase([n])}"
        for n in unjudged.not_judged(report)
    ]
    for audited, finding in words.silenced(report):
        place = words.location_text(finding.place, audited.file, spec.cwd)
        lines.append(f"{place}: suppressed: {finding.code} {words.finding_line(audited, finding)}")
    for audited, finding in words.known(report):
        place = words.location_text(finding.place, audited.file, spec.cwd)
        lines.append(f"{place}: known: {finding.code} {words.finding_line(audited, finding)}")
    return [TextLine((TextPart(text),)) for text in dict.fromkeys(lines)]


def _end(report: AuditReport, spec: AuditSpec) -> list[TextLine]:
    """Return the count and what to type next."""
    mend, following = words.fixable(report), next_step(report, spec.typed)
    count = TextPart(words.tally(report) + (f" [*] {mend}" if mend else ""), "strong")
    return [TextLine((count,)), *(TextLine((TextPart(said),)) for said in (words.gone(report), following) if said)]
