"""Fold findings that say the same about one line: layers made by a loop, blocks of a ready-made model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from tcprobe.report.audit import words
from tcprobe.report.audit.words import natural, order
from tcprobe.schema.finding import SEVERITIES, WARNING_PCT, Audited, Finding, Range
from tcprobe.schema.finding_kinds import BEST_LEFT, COST_UNKNOWN, FindingKind, WhyKind
from tcprobe.schema.place import Place
from tcprobe.schema.statement import About, Statement, say

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
