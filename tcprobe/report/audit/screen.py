"""The first screen of an audit: the step, what badly sized layers cost of it, which to change, what to leave.

Fold findings that say the same about one line: layers made by a loop, blocks of a ready-made model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from tcprobe import formatting as f
from tcprobe.report.audit import unjudged, words
from tcprobe.report.audit.words import natural, order
from tcprobe.report.document import Screen, Style, TextLine, TextPart, line_of
from tcprobe.report.sentences import gpu_of
from tcprobe.schema.finding import (
    BEST_LEFT,
    COST_UNKNOWN,
    SEVERITIES,
    WARNING_PCT,
    Audited,
    AuditReport,
    Finding,
    FindingKind,
    Range,
    WhyKind,
)
from tcprobe.schema.model import Place
from tcprobe.schema.statement import About, Statement, say
from tcprobe.visible import columns, shown

LEAST_LEFT: Final = 2
"""Lines on sizes to leave as they are from which these are counted in one; a single line is no longer than that."""
MOST_NOTES: Final = 10
"""Notes printed one per line; if there are more, they are grouped by reason unless everything was asked for."""


class FoldedFindings(Struct, frozen=True):
    """Findings of one model with the same line, rule, severity, class, dimension, size, suggestion and reason."""

    audited: Audited  # the model
    finding: Finding  # what most of them say, with the first layer's name and the sum of their savings
    count: int  # number of findings

    def sentence(self) -> str:
        """Return them as one line of text."""
        return words.finding_line(self.audited, self.finding, self.count)


def folded(rows: Iterable[words.ModelFinding]) -> list[FoldedFindings]:
    """Fold findings; return errors and warnings before notes, each ordered by file and line."""
    groups: dict[tuple[object, ...], list[words.ModelFinding]] = {}
    for audited, finding in rows:
        groups.setdefault(_same(audited, finding), []).append((audited, finding))
    return sorted((_fold(group) for group in groups.values()), key=_order)


def _same(audited: Audited, f: Finding) -> tuple[object, ...]:
    alone = f.says if f.layer is None else None
    says = (f.code, f.severity, f.layer_class, f.dimension, f.size, f.suggested, f.why, f.fix is None, alone)
    return audited.file, audited.label, f.place, f.saving_ns is None, *says


def _fold(group: Sequence[words.ModelFinding]) -> FoldedFindings:
    audited = group[0][0]
    findings = sorted((f for _, f in group), key=lambda f: natural(f.layer or ""))
    if len(findings) == 1:
        return FoldedFindings(audited, findings[0], 1)
    summed = replace(
        _typical(findings),
        layer=f"{findings[0].layer} and {len(findings) - 1:,} more",
        saving_ns=_sum([f.saving_ns for f in findings]),
        saving_pct=_sum([f.saving_pct for f in findings]),
    )
    return FoldedFindings(audited, summed, len(findings))


def _typical(findings: Sequence[Finding]) -> Finding:
    """Return the first layer's finding, but with what most findings say."""
    first = findings[0]
    about = first.says.get("subject")
    said, _ = Counter(_of_any(f) for f in findings).most_common(1)[0]
    together = replace(about, more=len(findings) - 1) if isinstance(about, About) else None
    return replace(first, says=said.changed("subject", together))


def _of_any(finding: Finding) -> Statement[FindingKind]:
    """Return the statement of a finding without the layer's name."""
    return finding.says.changed("subject", None)


def _sum(ranges: Sequence[Range | None]) -> Range | None:
    known = [r for r in ranges if r is not None]
    if len(known) < len(ranges):
        return None
    return Range(sum(r.low for r in known), sum(r.mid for r in known), sum(r.high for r in known))


def _order(fold: FoldedFindings) -> tuple[object, ...]:
    finding = fold.finding
    place = finding.place or Place(fold.audited.file, 0, 0)
    return (
        finding.severity in ("note", None),
        place.file,
        place.line,
        place.column,
        finding.code,
        *map(natural, order(finding.says)),
    )


_LEFT: Final[dict[WhyKind, str]] = {
    "few_channels_slower": "channels of images",
    "tiny_product": "sizes up to 16",
    "next_input_sets": "set by the next model's input",
    "joined_data_sets": "set by data",
    "saved_file_sets": "set by a file of weights",
    "package_sets": "set by a package",
    "reshape_sets": "set by a shape behind",
    "length_sets": "numbers of rows",
    "feed_sets": "set by what feeds",
    "labels_set": "set by labels",
    "depthwise": "depthwise convolutions",
    "fits_tf32": "aligned for TF32, not for float16",
    "bound_by_memory": "bound by memory",
    "bound_by_launch": "bound by launches",
    "as_fast_as_aligned": "as fast as aligned",
    "nothing_saved": "no faster when larger",
}


def is_best_left(fold: FoldedFindings) -> bool:
    """Return whether findings say nothing but that a size is best left as it is."""
    return is_note(fold) and _left(fold.finding) is not None


def best_left(notes: Sequence[FoldedFindings]) -> str:
    """Return how many sizes are best left as they are, and why, most frequent reason first."""
    counts: Counter[WhyKind] = Counter()
    for note in notes:
        if (why := _left(note.finding)) is not None:
            counts[why] += note.count
    ranked = sorted(counts, key=lambda why: (-counts[why], BEST_LEFT.index(why)))
    reasons = ", ".join(f"{_LEFT[why]} ({counts[why]:,})" for why in ranked)
    return f"{counts.total():,} sizes are best left as they are: {reasons}"


def split(notes: Sequence[FoldedFindings], verbose: bool) -> tuple[list[FoldedFindings], list[FoldedFindings]]:
    """Return the findings to tell one by one, and those to count in one line."""
    left = [] if verbose else [note for note in notes if is_best_left(note)]
    if len(left) < LEAST_LEFT:
        return list(notes), []
    return [note for note in notes if not is_best_left(note)], left


def _left(finding: Finding) -> WhyKind | None:
    """Return why a size is best left, also where the reason stands beside that for which it has no fix."""
    beside = finding.why.get("beside") if finding.why is not None else None
    why = beside if isinstance(beside, Statement) else finding.why
    return next((kind for kind in BEST_LEFT if why is not None and why.kind == kind), None)


def is_note(fold: FoldedFindings) -> bool:
    """Return whether the findings are notes."""
    return fold.finding.severity not in SEVERITIES[:2]


class ReasonGroup(Struct, frozen=True):
    """Notes of one file, rule and reason."""

    file: str  # absolute path
    lines: tuple[str, ...]  # where they are, ascending; empty if no line is known
    code: str  # code of the rule
    why: str  # the reason, or the whole message if the finding is not about a size
    sizes: str  # the sizes, with the number of findings in brackets (``filters=6, 20 (3)``); empty if not about sizes
    count: int  # number of findings


def by_reason(notes: Sequence[FoldedFindings]) -> list[ReasonGroup]:
    """Group notes by file, rule and reason, in this order; the most frequent reason comes first."""
    groups: dict[tuple[str, str, Statement[str]], list[FoldedFindings]] = {}
    for note in notes:
        finding = note.finding
        file = finding.place.file if finding.place else note.audited.file
        groups.setdefault((file, finding.code, _reason(finding)), []).append(note)
    ranked = sorted(groups, key=lambda key: (*key[:2], -_count(groups[key]), order(key[2])))
    return [_told(*key, groups[key]) for key in ranked]


def _told(file: str, code: str, why: Statement[str], group: Sequence[FoldedFindings]) -> ReasonGroup:
    places = sorted({(p.line, p.position) for note in group if (p := note.finding.place)})
    sizes = _sizes(group)
    what, rest = words.halves(why)
    said = rest or what if sizes else words.sentence_of(why)
    return ReasonGroup(file, tuple(position for _, position in places), code, said, sizes, _count(group))


def _count(group: Sequence[FoldedFindings]) -> int:
    return sum(note.count for note in group)


def _reason(finding: Finding) -> Statement[str]:
    if finding.dimension is None:
        return finding.says
    if finding.why is not None:
        effect = finding.says.get("effect")
        if finding.why.kind in COST_UNKNOWN and isinstance(effect, Statement) and effect.kind == "slower_by_unknown":
            return effect  # whose reason alone begins with "how much is unknown", and does not say of what
        return finding.why
    return _of_any(finding) if finding.saving_pct is None else say("saves_little", pct=WARNING_PCT)


def _sizes(group: Sequence[FoldedFindings]) -> str:
    """Return ``channels=3, filters=6, 20 (3)``: sizes in ascending order, with their number if above 1."""
    counts: dict[str, Counter[int | None]] = {}
    for note in group:
        if note.finding.dimension is not None:
            counts.setdefault(note.finding.dimension, Counter())[note.finding.size] += note.count
    return ", ".join(_listed(name, sizes) for name, sizes in sorted(counts.items()))


def _listed(name: str, sizes: Counter[int | None]) -> str:
    told = [
        f"{'' if size is None else size}{f' ({count:,})' if count > 1 else ''}"
        for size, count in sorted(sizes.items(), key=lambda pair: pair[0] or 0)
    ]
    return f"{name}={', '.join(told)}" if None not in sizes else name


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
    hidden: list[FoldedFindings]  # notes on sizes that cost, of a step so short that the host takes longer; likewise

    @classmethod
    def of(cls, report: AuditReport) -> Found:
        rows = folded(words.rows(report))
        severe, hidden = [one for one in rows if not is_note(one)], [one for one in rows if _is_hidden(one)]
        notes = [one for one in rows if is_note(one) and not _is_hidden(one)]
        return cls(sorted(severe, key=_saved), notes, sorted(hidden, key=_saved))

    @property
    def listed(self) -> list[FoldedFindings]:
        """Those that have a row each."""
        return self.severe or self.hidden

    @property
    def style(self) -> Style:
        """How the answer is shown."""
        return "bad" if self.severe else "dim" if self.hidden else "good"


def _saved(one: FoldedFindings) -> float:
    return -(one.finding.saving_ns.mid if one.finding.saving_ns else 0.0)


def _is_hidden(one: FoldedFindings) -> bool:
    pct = one.finding.saving_pct
    return is_note(one) and one.audited.is_short and pct is not None and pct.mid >= WARNING_PCT


def screen_of(report: AuditReport, cwd: str, following: str | None, width: int | None = None) -> Screen:
    """Return the first screen of an audit.

    Args:
        report: the audit.
        cwd: absolute path of a folder; places inside it are relative to it.
        following: the next command; None if nothing is left to do.
        width: columns of the terminal; None where nothing is to be shortened.
    """
    found = Found.of(report)
    room = min(width or WIDTH, WIDTH)
    parts = [
        list(model_lines(report, cwd, room)),
        list(answer_lines(report, found, room)),
        list(_rows(found.listed, cwd, width)),
        list(rest_lines(report, found.notes, cwd, room)),
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


def answer_lines(report: AuditReport, found: Found, room: int) -> Iterator[TextLine]:
    """Yield what the badly sized layers cost, likely and at most; that there are none where there are none."""
    severe = found.severe
    sizes = sum(one.count for one in found.listed if one.finding.suggested is not None)
    others = sum(one.count for one in severe) - sizes if severe else 0
    what = f"{f.many(sizes, 'layer')} {'is' if sizes == 1 else 'are'} badly sized" if sizes else "No badly sized layer"
    gains = [
        (one, one.total_saving_ns) for one in report.audited if one.total_saving_ns and one.total_saving_ns.high > 0
    ]
    cost = ""
    if sizes and len(gains) == 1:
        cost = f"; {'they cost' if sizes > 1 else 'it costs'} {_cost(*gains[0])}"
    also = f"; {f.many(others, 'other finding')}" if others else ""
    short = f". {words.HIDDEN}" if found.hidden and not severe else ""
    for line in f.wrapped(f"{what}{cost}{also}{short}.", room):
        yield line_of(TextPart(line, found.style))


def _cost(audited: Audited, saved: Range) -> str:
    step = audited.step_ns
    share = "" if step is None or step.mid <= 0 else f" ({words.floor_percent(100.0 * max(0.0, saved.mid) / step.mid)})"
    return f"likely {f.likely(saved)} {words.per(audited)}{share}, at most {at_most(saved)}"


def at_most(saved: Range) -> str:
    """Return the most that is saved: a bound, which is rounded up."""
    most = Range(0.0, saved.high, saved.high)
    return f.range_text(most).removeprefix("up to ") if saved.high > 0 else "nothing"


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
    likely, most = ("unknown", "unknown") if saved is None else (f.likely(saved), at_most(saved))
    return where, shown(finding.layer or finding.code), words.change(finding) or finding.code, likely, most


def rest_lines(report: AuditReport, notes: Sequence[FoldedFindings], cwd: str, room: int) -> Iterator[TextLine]:
    """Yield what is left as it is, and what could not be judged or read."""
    told, left = split(notes, verbose=False)
    texts = [f"Leave: {best_left(left)}."] if left else []
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
