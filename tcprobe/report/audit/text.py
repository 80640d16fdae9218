"""An audit as text: one line per finding as linters write it, the costliest, the gain, what it rests on, what next.

Errors and warnings come first, then notes, each in the order of file and line; what many layers of one line share is
told once (`tcprobe.report.audit.fold`).
"""

from __future__ import annotations

import textwrap
from typing import Final, TextIO

from tcprobe.report.audit import fold, words
from tcprobe.report.audit.base import AuditSpec
from tcprobe.report.audit.next import next_step
from tcprobe.report.formatting import visible
from tcprobe.report.grid import Head, Section, text_lines
from tcprobe.schema.finding import Audited, AuditReport, Finding

BOLD, DIM, YELLOW, RED, CYAN, RESET = "\x1b[1m", "\x1b[2m", "\x1b[33m", "\x1b[31m", "\x1b[36m", "\x1b[0m"
LEVEL_COLORS: Final = {"error": RED, "warning": YELLOW, "note": CYAN}
MOST_COSTLY: Final = 5
MOST_REASONS: Final = 4


def render(report: AuditReport, spec: AuditSpec, out: TextIO) -> None:
    """Write the audit; without ``spec.width`` nothing is cut or wrapped."""
    found = fold.folded(words.rows(report))
    severe = [f for f in found if not fold.is_note(f)]
    notes = [f for f in found if fold.is_note(f)]
    blocks = [
        [line(f, spec) for f in severe],
        _notes(notes, spec),
        [*_unused(report, spec), *_failed(report, spec)],
        _costliest(found, spec),
        _verbose(report, spec) if spec.verbose else [],
        _limits(report, spec),
        [_paint(_end(report), BOLD, spec), *(said for said in [next_step(report, spec.typed)] if said)],
    ]
    out.write("\n\n".join("\n".join(block) for block in blocks if block) + "\n")


def line(told: fold.Folded, spec: AuditSpec) -> str:
    """Return ``path:line:col: TC101 [*] sentence``."""
    finding = told.finding
    place = words.located(finding.place, told.audited.file, spec.cwd)
    code = _paint(finding.code, LEVEL_COLORS.get(finding.severity or "", DIM), spec)
    star = f" {_paint('[*]', CYAN, spec)}" if finding.fix else ""
    return f"{_paint(place, BOLD, spec)}: {code}{star} {told.sentence()}"


def _notes(notes: list[fold.Folded], spec: AuditSpec) -> list[str]:
    """Return notes one a line; many of them by file, rule and reason, with every size but without the layers."""
    if spec.verbose or len(notes) <= fold.MOST_NOTES:
        return [line(f, spec) for f in notes]
    title = f"Notes: {sum(f.count for f in notes):,}, by reason; --verbose gives each its line"
    return [_paint(title, BOLD, spec), *(_reason(group, spec) for group in fold.by_reason(notes))]


def _reason(group: fold.Reason, spec: AuditSpec) -> str:
    """Return ``path:lines: TC101 filters=6, 20 (3): why``."""
    lines = ",".join(str(n) for n in group.lines)
    where = words.located(None, group.file, spec.cwd) + (f":{lines}" if lines else "")
    said = f"{group.sizes}: {group.why}" if group.sizes else group.why
    return f"{_paint(where, BOLD, spec)}: {_paint(group.code, LEVEL_COLORS['note'], spec)} {visible(said)}"


def _unused(report: AuditReport, spec: AuditSpec) -> list[str]:
    return [
        f"{_paint(words.located(place, place.file, spec.cwd), BOLD, spec)}: unused suppression: {visible(text)}"
        for place, text in report.unused
    ]


def _failed(report: AuditReport, spec: AuditSpec) -> list[str]:
    told = [(words.located(None, path, spec.cwd), visible(words.reason(path, why))) for path, why in report.failed]
    return [f"{_paint(where, BOLD, spec)}: not audited: {why}" for where, why in told]


def _costliest(found: list[fold.Folded], spec: AuditSpec) -> list[str]:
    """Return the table of what costs most; with several models in the report it may mix their steps.

    One row would say again what the line of the finding says: no table then.
    """
    top = words.costliest([(f.audited, f.finding) for f in found], MOST_COSTLY)
    if len(top) < 2:
        return []
    heads = (
        Head("where", least=16, path=True),
        Head("rule", rank=3),
        Head("layer", rank=2, least=12),
        Head("now -> suggested"),
        Head("likely", right=True),
        Head("saves", rank=1),
        Head("of the step", right=True),
    )
    units = {words.per(audited) for audited, _ in top}
    title = f"Costliest, {units.pop()}" if len(units) == 1 else "Costliest"
    cells = tuple(_cells(audited, f, spec, unit=title == "Costliest") for audited, f in top)
    section = Section(title, heads, cells)
    head, *rest = text_lines(section, spec.width)
    return [_paint(section.title, BOLD, spec), _paint(head, DIM, spec), *rest]


def _cells(audited: Audited, finding: Finding, spec: AuditSpec, unit: bool) -> tuple[str, ...]:
    share = "-" if finding.saving_pct is None else words.percent(finding.saving_pct.mid)
    layer = visible(finding.layer) if finding.layer else "-"
    place = words.located(finding.place, audited.file, spec.cwd)
    saved = finding.saving_ns
    likely, span = (words.likely(saved), words.span(saved)) if saved else ("-", "-")
    span = f"{span} {words.per(audited)}" if unit and saved else span
    return place, finding.code, layer, words.change(finding) or "-", likely, span, share


def _limits(report: AuditReport, spec: AuditSpec) -> list[str]:
    """Return the gain of each model, what was not judged, and what the prediction is for."""
    said = words.gains(report, None if spec.verbose else MOST_COSTLY)
    said += [text for text in (words.uncosted(report),) if text]
    said += _not_judged(report, spec) + [visible(note) for note in words.notes(report)]
    said += words.predicted_for(report)
    return [wrapped for text in said for wrapped in _wrapped(text, spec)]


def _not_judged(report: AuditReport, spec: AuditSpec) -> list[str]:
    reasons = words.unseen(report)
    if not reasons:
        return []
    shown = reasons if spec.verbose else reasons[:MOST_REASONS]
    listed = "; ".join(f"{visible(reason)} ({count:,})" for reason, count in shown)
    rest = sum(count for _, count in reasons[len(shown) :])
    more = (f"; other reasons ({rest:,})" if rest else "") + ("" if spec.verbose else ". --verbose lists them")
    many = sum(count for _, count in reasons)
    return [f"Not judged, {many:,} thing{'' if many == 1 else 's'}: {listed}{more}."]


def _verbose(report: AuditReport, spec: AuditSpec) -> list[str]:
    """Return what could not be judged, and what comments silenced, one line each."""
    lines = [
        f"{words.located(u.place, a.file, spec.cwd)}: not judged: {visible(u.what)}: {visible(u.reason)}"
        for a in report.audited
        for u in a.unseen
    ]
    for audited, finding in words.silenced(report):
        place = words.located(finding.place, audited.file, spec.cwd)
        lines.append(f"{place}: suppressed: {finding.code} {words.sentence(audited, finding)}")
    return list(dict.fromkeys(lines))


def _end(report: AuditReport) -> str:
    mend = words.fixable(report)
    return words.tally(report) + (f" [*] {mend}" if mend else "")


def _wrapped(text: str, spec: AuditSpec) -> list[str]:
    if spec.width is None:
        return [text]
    return textwrap.wrap(text, spec.width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def _paint(text: str, code: str, spec: AuditSpec) -> str:
    return f"{code}{text}{RESET}" if spec.color else text
