"""An audit as Markdown, for a pull request: the count, what to change first, every finding, what it rests on."""

from __future__ import annotations

from typing import Final, TextIO

from tcprobe.report.audit import fold, words
from tcprobe.report.audit.base import AuditSpec
from tcprobe.report.formatting import visible
from tcprobe.report.grid import Head, Section, escape_markdown, markdown_lines
from tcprobe.schema.finding import SEVERITIES, Audited, AuditReport, Finding

MOST_GAINS: Final = 5


def render(report: AuditReport, spec: AuditSpec, out: TextIO) -> None:
    """Write the audit as GitHub-flavoured Markdown."""
    found = fold.folded(words.rows(report))
    blocks = [
        ["## Layer sizes and precision"],
        [f"**{words.tally(report)}** {words.fixable(report, '`--fix`')}".rstrip()],
    ]
    blocks += [[escape_markdown(text)] for text in words.gains(report, MOST_GAINS)]
    if found:
        blocks.append(markdown_lines(_table(found, spec)))
    blocks += [_broken(report, spec), _limits(report)]
    out.write("\n\n".join("\n".join(block) for block in blocks if block) + "\n")


def _table(found: list[fold.Folded], spec: AuditSpec) -> Section:
    """Return all findings: errors, warnings, notes, of each those that save most first, then by place."""
    heads = (
        Head("severity"),
        Head("where"),
        Head("rule"),
        Head("finding"),
        Head("now -> suggested"),
        Head("saves"),
        Head("of the step", right=True),
    )
    return Section("", heads, tuple(_cells(f.audited, f.finding, spec) for f in sorted(found, key=_rank)))


def _rank(told: fold.Folded) -> tuple[int, float]:
    finding = told.finding
    return SEVERITIES.index(finding.severity or "note"), -(finding.saving_ns.mid if finding.saving_ns else 0.0)


def _cells(audited: Audited, finding: Finding, spec: AuditSpec) -> tuple[str, ...]:
    """Return the cells of a finding; severity and saving have columns of their own, so its sentence is its message."""
    place = words.located(finding.place, audited.file, spec.cwd)
    pct = finding.saving_pct
    return (
        finding.severity or "unknown",
        place,
        finding.code,
        visible(words.explained(finding)),
        words.change(finding) or "-",
        words.saving(audited, finding) or "-",
        "-" if pct is None or pct.mid <= 0 else words.percent(pct.mid),
    )


def _broken(report: AuditReport, spec: AuditSpec) -> list[str]:
    unused = [
        f"- {escape_markdown(words.located(place, place.file, spec.cwd))}: unused suppression: {escape_markdown(text)}"
        for place, text in report.unused
    ]
    failed = [
        f"- {escape_markdown(words.relative(path, spec.cwd))}: not audited: {escape_markdown(words.reason(path, why))}"
        for path, why in report.failed
    ]
    return unused + failed


def _limits(report: AuditReport) -> list[str]:
    reasons = words.unseen(report)
    lines = [f"- {escape_markdown(reason)} ({count:,})" for reason, count in reasons]
    said = [f"Not judged: {sum(count for _, count in reasons):,}", "", *lines, ""] if reasons else []
    uncosted = [text for text in (words.uncosted(report),) if text]
    closing = [escape_markdown(text) for text in (*uncosted, *words.notes(report), *words.predicted_for(report))]
    return ["<details><summary>What this rests on</summary>", "", *said, *_apart(closing), "</details>"]


def _apart(paragraphs: list[str]) -> list[str]:
    return [line for text in paragraphs for line in (text, "")]
