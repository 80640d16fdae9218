"""The first screen of an audit: the step, what badly sized layers cost of it, which to change, what to leave."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from tcprobe import formatting as f
from tcprobe.report.audit import fold, unjudged, words
from tcprobe.report.audit.fold import FoldedFindings
from tcprobe.report.document import Screen, TextLine, TextPart, line_of
from tcprobe.report.sentences import gpu_of
from tcprobe.schema.finding import Audited, AuditReport, Range
from tcprobe.visible import columns, shown

WIDTH: Final = 80
UNLIMITED: Final = 1 << 30
MOST: Final = 8  # findings with a row
MOST_MODELS: Final = 3
FIGURE: Final = 10
END: Final = 78  # column at which figures end


class Found(NamedTuple):
    """The findings of an audit."""

    severe: list[FoldedFindings]  # errors and warnings, the costliest first
    notes: list[FoldedFindings]

    @classmethod
    def of(cls, report: AuditReport) -> Found:
        found = fold.folded(words.rows(report))
        severe = [one for one in found if not fold.is_note(one)]
        severe.sort(key=lambda one: -(one.finding.saving_ns.mid if one.finding.saving_ns else 0.0))
        return cls(severe, [one for one in found if fold.is_note(one)])


def screen_of(report: AuditReport, cwd: str, following: str | None, width: int | None = None) -> Screen:
    """Return the first screen of an audit.

    Args:
        report: the audit.
        cwd: absolute path of a folder; places inside it are relative to it.
        following: the next command; None if nothing is left to do.
        width: columns of the terminal; None where nothing is to be shortened.
    """
    severe, notes = Found.of(report)
    room = min(width or WIDTH, WIDTH)
    parts = [
        list(model_lines(report, cwd, room)),
        list(answer_lines(report, severe, room)),
        list(_rows(severe, cwd, width)),
        list(rest_lines(report, notes, cwd, room)),
        list(_end(report, following)),
    ]
    lines = list[TextLine]()
    for part in filter(None, parts):
        lines += [line_of(""), *part] if lines else part
    return Screen(tuple(lines))


def model_lines(report: AuditReport, cwd: str, room: int) -> Iterator[TextLine]:
    """Yield for each model the file, the GPU, the batch and its step."""
    ranked = sorted(report.audited, key=lambda one: -(one.step_ns.mid if one.step_ns else 0.0))
    for one in ranked[:MOST_MODELS]:
        step = (
            "" if one.step_ns is None else f": {f.likely(one.step_ns)} {words.per(one)} ({f.range_text(one.step_ns)})"
        )
        batch = f", batch {one.batch:,}" if one.batch_known else ""
        dtype = f" in {one.dtype}" if one.dtype else ""
        place = shown(words.location_text(None, one.file, cwd))
        called = "" if place.endswith(one.label) else f"{shown(one.label)}, "
        said = f"{called}for {gpu_of(one.gpu)}{dtype}{batch}{step}"
        for number, line in enumerate(f.wrapped(f"{place}  {said}", room, "  ")):
            yield line_of(TextPart(line, "dim" if number else "strong"))
    if more := len(ranked) - MOST_MODELS:
        yield from [line_of(TextPart(f"and {f.many(more, 'more model')}", "dim"))] if more > 0 else []


def answer_lines(report: AuditReport, severe: Sequence[FoldedFindings], room: int) -> Iterator[TextLine]:
    """Yield what the badly sized layers cost, likely and at most; that there are none where there are none."""
    sizes = sum(one.count for one in severe if one.finding.suggested is not None)
    others = sum(one.count for one in severe) - sizes
    told = f"{f.many(sizes, 'layer')} {'is' if sizes == 1 else 'are'} badly sized" if sizes else "No badly sized layer"
    gains = [
        (one, one.total_saving_ns) for one in report.audited if one.total_saving_ns and one.total_saving_ns.high > 0
    ]
    cost = ""
    if sizes and len(gains) == 1:
        cost = f"; {'they cost' if sizes > 1 else 'it costs'} {_cost(*gains[0])}"
    also = f"; {f.many(others, 'other finding')}" if others else ""
    for line in f.wrapped(f"{told}{cost}{also}.", room):
        yield line_of(TextPart(line, "bad" if severe else "good"))


def _cost(audited: Audited, saved: Range) -> str:
    step = audited.step_ns
    share = "" if step is None or step.mid <= 0 else f" ({f.whole_percent(100.0 * max(0.0, saved.mid) / step.mid)})"
    return f"likely {f.likely(saved)} {words.per(audited)}{share}, at most {f.likely(high_of(saved))}"


def high_of(saved: Range) -> Range:
    return Range(saved.high, saved.high, saved.high)


def _rows(severe: Sequence[FoldedFindings], cwd: str, width: int | None) -> Iterator[TextLine]:
    """Yield a row for each finding: place, layer, change, what it saves likely and at most."""
    if not severe:
        return
    alone = len({one.audited.file for one in severe}) == 1
    rows = [_cells(one, cwd, alone) for one in severe[:MOST]]
    room = END - 2 * FIGURE
    wheres, changes = (max(6, *(columns(row[at]) for row in rows)) for at in (0, 2))
    layers = max(8, min(max(columns(row[1]) for row in rows), room - wheres - changes - 4))
    head = f"{'line' if alone else 'where':<{wheres}}  {'layer':<{layers}}  {'change':<{changes}}"
    yield line_of(TextPart(f"{head:<{room}}{'likely':>{FIGURE}}{'at most':>{FIGURE}}", "dim"))
    for where, layer, change, likely, most in rows:
        name = layer if width is None else f.shorten(layer, layers)
        text = f"{where:<{wheres}}  {name}{' ' * (layers - columns(name))}  {change:<{changes}}"
        yield line_of(f"{text:<{room}}{likely:>{FIGURE}}{most:>{FIGURE}}")
    if left := len(severe) - MOST:
        yield from [line_of(TextPart(f"{f.many(left, 'more finding')}: --verbose", "dim"))] if left > 0 else []


def _cells(one: FoldedFindings, cwd: str, alone: bool) -> tuple[str, str, str, str, str]:
    finding, saved, place = one.finding, one.finding.saving_ns, one.finding.place
    where = shown(words.location_text(place, one.audited.file, cwd))
    if alone and place is not None and place.line:
        where = place.position
    likely, most = ("unknown", "unknown") if saved is None else (f.likely(saved), f.likely(high_of(saved)))
    return where, shown(finding.layer or finding.code), words.change(finding) or finding.code, likely, most


def rest_lines(report: AuditReport, notes: Sequence[FoldedFindings], cwd: str, room: int) -> Iterator[TextLine]:
    """Yield what is left as it is, and what could not be judged or read."""
    told, left = fold.split(notes, verbose=False)
    texts = [f"Leave: {fold.best_left(left)}."] if left else []
    texts += (
        [f"Notes: {f.many(sum(one.count for one in told), 'finding')} that cost nothing or little."] if told else []
    )
    unseen = sum(count for _, count in unjudged.unseen(report))
    texts += [f"Not judged: {f.many(unseen, 'thing')}."] if unseen else []
    texts += [f"Not audited: {shown(words.location_text(None, path, cwd))}." for path, _ in report.failed[:2]]
    for text in texts:
        yield from (line_of(line) for line in f.wrapped(text, room, "  "))


def _end(report: AuditReport, following: str | None) -> Iterator[TextLine]:
    if basis := basis_of(report):
        yield line_of(TextPart("How sure  ", "strong"), f"{basis}.")
    more = "--verbose lists every finding, size and reason"
    for number, text in enumerate(filter(None, (following, more))):
        lead = "Next      " if not number else " " * 10
        yield line_of(TextPart(lead, "strong"), text)


def basis_of(report: AuditReport) -> str | None:
    """Return what the times rest on; None where there are none."""
    rests = {one.basis for one in report.audited if one.step_ns is not None}
    if not rests:
        return None
    basis = "calibrated on this GPU" if rests == {"calibrated"} else "predicted"
    estimated = any(finding.evidence in ("between", "judged") for finding in report.findings())
    return f"{basis}{', convolutions estimated' if estimated else ''}; matrix ops and launches alone"
