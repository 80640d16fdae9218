"""The document of an audit: for a terminal one line per finding, as linters print them; a page for a pull request.

Errors and warnings come before notes, each in the order of file and line; what many layers on one line share is
printed once (`tcprobe.report.audit.screen`).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from tcprobe import formatting as f
from tcprobe.hardware import lookup_gpu
from tcprobe.masking import mask_words
from tcprobe.report.audit import screen, unjudged, words
from tcprobe.report.audit.screen import FoldedFindings, ReasonGroup, screen_of
from tcprobe.report.document import (
    Block,
    Cell,
    Folded,
    Heading,
    Lines,
    ReportSpec,
    Screen,
    Section,
    Style,
    TextLine,
    TextPart,
    line_of,
    wrapped_line,
)
from tcprobe.report.fields import cell_of, section
from tcprobe.schema.finding import COST_UNKNOWN, SEVERITIES, Audited, AuditReport, Finding, Range
from tcprobe.schema.model import Place

if TYPE_CHECKING:
    from tcprobe.report.document import DataTable

STYLES: Final[dict[str | None, Style]] = {"error": "error", "warning": "warning", "note": "accent"}
MOST_GAINS: Final = 5
MOST_COSTLY: Final = 5
MOST_REASONS: Final = 4


class AuditDocument(Struct, frozen=True):
    """The report of an audit, as a `tcprobe.report.document.Document`."""

    report: AuditReport
    spec: ReportSpec

    def screen(self) -> list[Block]:
        """Return one line per finding, the costliest sizes, the gain, what figures rest on, and the next command.

        On a terminal the first screen, which has the costliest alone.
        """
        if self.spec.brief:
            following = next_step(self.report, self.spec.typed)
            return [screen_of(self.report, self.spec.cwd, following, self.spec.width)]
        found = screen.folded(words.rows(self.report))
        severe, notes = ([one for one in found if screen.is_note(one) == note] for note in (False, True))
        broken = [_at(place, text) for place, text in self._broken()]
        lines = [[*map(self._finding, severe)], [*self._notes(notes)], broken]
        closing = [self._verbose() if self.spec.verbose else [], self._limits(), self._end()]
        return [*_blocks(lines), *filter(None, [self._costliest(found)]), *_blocks(closing)]

    def page(self) -> list[Block]:
        """Return the count, what to change first, every finding, and what figures rest on."""
        report = self.report
        told, left = screen.split(screen.folded(words.rows(report)), self.spec.verbose)
        broken = [f"{place}: {text}" for place, text in self._broken()]
        lists = TextPart("--verbose", "code"), " lists them."
        best_left = [line_of(f"{screen.best_left(left)}; ", *lists)] if left else []
        first: list[Block] = [Heading("Layer sizes and precision", 2)]
        if self.spec.web:
            from tcprobe.report.audit import pictures

            first = [Heading("Layer sizes and precision", 1), Screen((), pictures.first_of(report, self.spec.cwd))]
        return [
            *first,
            Lines((self._count(),)),
            _paragraphs(words.gains(report, MOST_GAINS)),
            *filter(None, [self._table(told)]),
            Lines(tuple(best_left)),
            _paragraphs([*words.gone(report), *broken], bullets=True),
            Folded("What this rests on", tuple(self._rests_on())),
        ]

    def data(self) -> dict[str, Any]:
        """Return everything in the report as raw values."""
        from tcprobe.report.audit.data import data

        return data(self.report)

    def tables(self) -> list[DataTable]:
        """Return the findings as the only table."""
        return [self.table()]

    def table(self) -> DataTable:
        """Return the findings, including suppressed ones."""
        from tcprobe.report.audit.data import table

        return table(self.report, self.spec)

    def _place(self, place: Place | None, file: str) -> str:
        return words.location_text(place, file, self.spec.cwd)

    def _finding(self, told: FoldedFindings) -> TextLine:
        """Return ``path:line:col: TC101 [*] sentence``."""
        finding = told.finding
        code = TextPart(finding.code, STYLES.get(finding.severity, "dim"))
        star = (" ", TextPart("[*]", "accent")) if finding.fix else ()
        return _at(self._place(finding.place, told.audited.file), code, *star, f" {told.sentence()}")

    def _notes(self, notes: list[FoldedFindings]) -> Iterator[TextLine]:
        """Yield one line per note; if there are many, per file, rule and reason, with all sizes but without layers.

        Sizes that are best left as they are take one line together.
        """
        told, left = screen.split(notes, self.spec.verbose)
        if self.spec.verbose or len(told) <= screen.MOST_NOTES:
            yield from map(self._finding, told)
        else:
            many = sum(one.count for one in told)
            yield line_of(TextPart(f"Notes: {many:,}, by reason; --verbose gives each its line", "strong"))
            yield from map(self._reason, screen.by_reason(told))
        if left:
            yield line_of(f"{screen.best_left(left)}; --verbose lists them")

    def _reason(self, group: ReasonGroup) -> TextLine:
        """Return ``path:lines: TC101 filters=6, 20 (3): why``."""
        where = ":".join(part for part in (self._place(None, group.file), ",".join(group.lines)) if part)
        sizes = f"{group.sizes}: " if group.sizes else ""
        return _at(where, TextPart(group.code, STYLES["note"]), f" {sizes}{group.why}")

    def _broken(self) -> Iterator[tuple[str, str]]:
        """Yield suppressions that silence nothing, and files not read or judged: the place, and what is so."""
        report = self.report
        for place, text in report.unused:
            yield self._place(place, place.file), f"unused suppression: {text}"
        for what, files in (("not audited", report.failed), ("nothing judged", unjudged.failing(report))):
            for path, why in files:
                yield self._place(None, path), f"{what}: {words.reason(path, why)}"

    def _costliest(self, found: list[FoldedFindings]) -> Section | None:
        """Return the table of what costs most; with several models it may mix their steps.

        No table if it would have one row, as that would repeat the finding's line.
        """
        top = words.costliest([(one.audited, one.finding) for one in found], MOST_COSTLY)
        units = {words.per(audited) for audited, _ in top}
        each = f", {units.pop()}" if len(units) == 1 else ""

        def saves(audited: Audited, finding: Finding) -> str:
            saved = finding.saving_ns
            return f"{f.range_text(saved)}{'' if each else f' {words.per(audited)}'}" if saved else f.NA

        fields = (
            cell_of("where", lambda row: self._place(row[1].place, row[0].file), least=16, path=True),
            cell_of("rule", lambda row: row[1].code, 3),
            cell_of("layer", lambda row: row[1].layer or f.NA, 2, least=12),
            cell_of("now -> suggested", lambda row: words.change(row[1]) or f.NA),
            cell_of("likely", lambda row: _cell(row[1].saving_ns, f.likely, "ns"), right=True),
            cell_of("saves", lambda row: saves(*row), 1),
            cell_of(
                "of the step",
                lambda row: _cell(row[1].saving_pct, lambda share: words.floor_percent(share.mid), "pct"),
                right=True,
            ),
        )
        return section(f"Costliest{each}", fields, top) if len(top) > 1 else None

    def _table(self, found: list[FoldedFindings]) -> Section | None:
        """Return the findings: errors, warnings, notes; within each the largest saving first, then by place.

        Their sentences leave out severity and saving, which have columns of their own.
        """
        fields = (
            cell_of("severity", lambda one: one.finding.severity or "unknown"),
            cell_of("where", lambda one: self._place(one.finding.place, one.audited.file)),
            cell_of("rule", lambda one: one.finding.code),
            cell_of("finding", lambda one: words.message_with_reason(one.finding)),
            cell_of("now -> suggested", lambda one: words.change(one.finding) or f.NA),
            cell_of("saves", lambda one: words.saving_per_step(one.audited, one.finding) or f.NA),
            cell_of("of the step", lambda one: _cell(one.finding.saving_pct, _gained, "pct"), right=True),
        )
        return section("", fields, sorted(found, key=_rank))

    def _limits(self) -> list[TextLine]:
        """Return each model's gain, what could not be judged, and what the prediction is for."""
        report, every = self.report, self.spec.verbose
        told = [*words.gains(report, None if every else MOST_COSTLY), *words.steps(report), *words.uncosted(report)]
        told += [*unjudged.line(report, every), *unjudged.passing(report), *self._unseen()]
        told += words.limit_notes(report) + words.predicted_for(report)
        return [wrapped_line(text, indent="  ") for text in told]

    def _unseen(self) -> Iterator[str]:
        """Yield why things could not be judged; nothing if all could."""
        every = self.spec.verbose
        reasons = unjudged.unseen(self.report if every else unjudged.untold(self.report))
        if reasons:
            shown = reasons if every else reasons[:MOST_REASONS]
            rest = sum(count for _, count in reasons[len(shown) :])
            more = (f"; other reasons ({rest:,})" if rest else "") + ("" if every else ". --verbose lists them")
            many = f.many(sum(count for _, count in reasons), "thing")
            yield f"Not judged, {many}: {'; '.join(unjudged.counted(shown))}{more}."

    def _rests_on(self) -> Iterator[Lines]:
        report = self.report
        reasons = unjudged.unseen(report)
        yield _paragraphs([f"Not judged: {sum(count for _, count in reasons):,}"] if reasons else [])
        yield _paragraphs(unjudged.counted(reasons), bullets=True)
        limits = [*unjudged.line(report), *unjudged.passing(report), *words.steps(report), *words.uncosted(report)]
        yield _paragraphs([*limits, *words.limit_notes(report), *words.predicted_for(report)])

    def _verbose(self) -> list[TextLine]:
        """Return what could not be judged, what comments silenced and what the baseline holds, one line each."""
        report = self.report
        lines = [
            f"{self._place(one.place, audited.file)}: not judged: {one.what}: {one.reason}"
            for audited in report.audited
            for one in audited.unseen
        ]
        lines += [
            f"{self._place(one.place, one.place.file)}: not judged: {unjudged.phrase([one])}"
            for one in unjudged.not_judged(report)
        ]
        for what in ("suppressed", "known"):
            for audited, finding in words.rows(report, what):
                said = words.finding_line(audited, finding)
                lines.append(f"{self._place(finding.place, audited.file)}: {what}: {finding.code} {said}")
        return [line_of(text) for text in dict.fromkeys(lines)]

    def _count(self) -> TextLine:
        tally = TextPart(words.tally(self.report), "strong")
        match words.around_fix(self.report):
            case (before, behind):
                return line_of(tally, f" {before}", TextPart("--fix", "code"), behind)
            case _:
                return line_of(tally)

    def _end(self) -> list[TextLine]:
        """Return the count and what to type next."""
        report, mend = self.report, words.fixable(self.report)
        count = line_of(TextPart(words.tally(report) + (f" [*] {mend}" if mend else ""), "strong"))
        following = next_step(report, self.spec.typed)
        return [count, *map(line_of, words.gone(report)), *([line_of(following)] if following else [])]


def _blocks(groups: Iterable[list[TextLine]]) -> list[Lines]:
    return [Lines(tuple(group)) for group in groups]


def _paragraphs(texts: Iterable[str], bullets: bool = False) -> Lines:
    return Lines(tuple(map(wrapped_line, texts)), bullets)


def _at(place: str, *parts: TextPart | str) -> TextLine:
    """Return a line in the form of linters, which is never wrapped."""
    return line_of(TextPart(place, "strong"), ": ", *parts)


def _rank(told: FoldedFindings) -> tuple[int, float]:
    finding = told.finding
    return SEVERITIES.index(finding.severity or "note"), -(finding.saving_ns.mid if finding.saving_ns else 0.0)


def _cell(figure: Range | None, text: Any, unit: str) -> Cell:
    return Cell(text(figure), figure.mid, unit) if figure else Cell(f.NA, None, unit)


def _gained(share: Range) -> str:
    return words.floor_percent(share.mid) if share.mid > 0 else f.NA


VERB: Final = ("tcprobe", "audit-shapes")
ALONE: Final = ("--fix", "--format", "--output", "-o")
"""Options that rule out ``--diff``, or that show that nobody is watching."""

VERBOSE: Final = frozenset({"--verbose", "-v"})
DONE: Final = ("--fix", "--write-baseline")
"""Options not to be typed again."""


def next_step(report: AuditReport, typed: Sequence[str]) -> str | None:
    """Return what to look at next, ending in its command; None if nothing is left to do.

    Args:
        report: the audit.
        typed: arguments after ``tcprobe audit-shapes``; empty if unknown.
    """
    findings = report.findings()
    severe = [f for f in findings if f.severity in ("error", "warning")]
    if any(f.fix for f in findings) and (severe or any(f.fix and f.fix.safe for f in findings)):
        return f"See the fixes: {_with('--diff', typed)}"
    if severe:
        return f"Read more: tcprobe explain {_first(severe).code}"
    if any(_free_in_tf32(f) for f in findings) and _cores(report):
        return f"See what these sizes cost in float16: {_with('--dtype float16', typed)}"
    if VERBOSE.isdisjoint(typed) and (unjudged.unseen(report) or unjudged.not_judged(report)):
        return f"See what was not judged: {_with('--verbose', typed)}"
    return None


def _first(findings: Sequence[Finding]) -> Finding:
    """Return the finding that saves most, else the first error, else the first finding."""
    return max(findings, key=lambda f: (f.saving_ns.mid if f.saving_ns else 0.0, f.severity == "error"))


def _free_in_tf32(finding: Finding) -> bool:
    """Return whether a size may cost more in 16 bits; where its cost is unknown, it would be there too."""
    if finding.why is not None and finding.why.kind in COST_UNKNOWN:
        return False
    return finding.code.startswith("TC1") and finding.dtype in ("float32", "tf32") and finding.code != "TC104"


def _cores(report: AuditReport) -> bool:
    """Return whether the GPU of the prediction has Tensor Cores."""
    gpus = (lookup_gpu(audited.gpu) for audited in report.audited)
    return any(gpu is not None and gpu.tensor_cores for gpu in gpus)


def _with(option: str, typed: Sequence[str]) -> str:
    """Return the command with one more option; the option alone if the command is unknown or has a similar one."""
    name = option.partition(" ")[0]
    given = {word.partition("=")[0] for word in typed}
    if not typed or name in given or (name == "--diff" and given.intersection(ALONE)):
        return f"add {option}"
    again = [word for word in mask_words(typed) if word not in DONE]
    return f"{shlex.join(VERB)} {option} {shlex.join(again)}"
