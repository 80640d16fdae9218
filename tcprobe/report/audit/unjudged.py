"""Wording of what is not judged: layers of other frameworks, products of unknown sizes, files with nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from tcprobe.formatting import many
from tcprobe.schema.finding import AuditReport
from tcprobe.schema.model import NotJudged, NotJudgedKind

READS: Final = "tcprobe judges layers of Keras, and products of TensorFlow whose sizes the file tells"
ALLOW: Final = "--allow-unjudged accepts that"
TRACE: Final = "--mode traced may tell"
MOST_NAMES: Final = 4
_ORDER: Final[tuple[NotJudgedKind, ...]] = ("layer", "product", "model")


def not_judged(report: AuditReport) -> list[NotJudged]:
    """Return all that is not judged, each once: several models of a file share it."""
    return list(dict.fromkeys(n for audited in report.audited for n in audited.not_judged))


def unseen(report: AuditReport) -> list[tuple[str, int]]:
    """Return why things could not be judged, and how often, most frequent first."""
    reasons = Counter(u.reason for u in dict.fromkeys(u for audited in report.audited for u in audited.unseen))
    return sorted(reasons.items(), key=lambda pair: (-pair[1], pair[0]))


def layers(report: AuditReport) -> int | None:
    """Return how many layers could not be judged; None where that is not all that could not, or nothing is."""
    found = dict.fromkeys(u for audited in report.audited for u in audited.unseen)
    if not found or any(u.layer is None for u in found) or not_judged(report):
        return None
    return len({(u.place.file if u.place else "", u.layer) for u in found})


def untold(report: AuditReport) -> AuditReport:
    """Return the report without the files that fail, whose lines say what could not be judged and why."""
    failing = _failing(report)
    return replace(report, audited=tuple(audited for audited in report.audited if audited.file not in failing))


def _failing(report: AuditReport) -> set[str]:
    return {one.file for one in report.unjudged if one.fails}


def counted(reasons: Iterable[tuple[str, int]]) -> list[str]:
    """Return reasons, each with how often it stands; what is said of a value begins with that word."""
    return [f"{'a value that ' * reason.startswith(('is ', 'has '))}{reason} ({count:,})" for reason, count in reasons]


def count(report: AuditReport) -> int:
    """Return how many layers, products and models are not judged."""
    return sum(counted for _, _, counted, _ in _groups(not_judged(report)))


def line(report: AuditReport, every: bool = False) -> list[str]:
    """Return what is not judged by name and count, and what is; `every` leaves no name out.

    ``Not judged: 12 layers of PyTorch (Linear 8, Conv2d 4): tcprobe judges layers of Keras, ...``. What the lines of
    failing files say is left out; nothing if that is all.
    """
    failing = _failing(report)
    said = phrase((one for one in not_judged(report) if one.place.file not in failing), every)
    return [f"Not judged: {said}: {READS}."] if said else []


def phrase(found: Iterable[NotJudged], every: bool = False) -> str:
    """Return ``12 layers of PyTorch (Linear 8, Conv2d 4), 3 products of TensorFlow (matmul 3)``; empty for nothing."""
    groups = _groups(found)
    return ", ".join(_group(*group, every=every) for group in groups)


def _groups(found: Iterable[NotJudged]) -> list[tuple[str, NotJudgedKind, int, Counter[str]]]:
    """Return what is not judged by library and kind, most first; a library's models only where it has no layers."""
    named: dict[tuple[str, NotJudgedKind], Counter[str]] = {}
    for one in found:
        named.setdefault((one.library, one.kind), Counter())[one.name] += one.count
    told = {library for library, kind in named if kind != "model"}
    groups = [
        (library, kind, sum(names.values()), names)
        for (library, kind), names in named.items()
        if kind != "model" or library not in told
    ]
    return sorted(groups, key=lambda group: (_ORDER.index(group[1]), -group[2], group[0]))


def _group(library: str, kind: NotJudgedKind, count: int, names: Counter[str], every: bool) -> str:
    ranked = sorted(names.items(), key=lambda pair: (-pair[1], pair[0]))
    shown = ranked if every or len(ranked) <= MOST_NAMES + 1 else ranked[:MOST_NAMES]
    left = len(ranked) - len(shown)
    listed = [f"{name} {counted:,}" for name, counted in shown] + ([f"{left:,} more"] if left else [])
    return f"{many(count, kind)} of {library} ({', '.join(listed)})"


def failing(report: AuditReport) -> list[tuple[str, str]]:
    """Return the files that fail since none of their layers could be judged; each with what, why and what to do."""
    return [(one.file, f"{_what(report, one.file)}; {ALLOW}") for one in report.unjudged if one.fails]


def _what(report: AuditReport, file: str) -> str:
    """Return what a file holds that could not be judged, why, and what to do about it."""
    part = AuditReport(tuple(audited for audited in report.audited if audited.file == file))
    foreign = phrase(one for audited in part.audited for one in audited.not_judged)
    told = [f"{foreign}: {READS}"] if foreign else []
    if reasons := unseen(part):
        things = many(sum(count for _, count in reasons), "thing")
        hint = "" if part.audited[0].mode == "traced" else f"; {TRACE}"
        told.append(f"{things}: {'; '.join(counted(reasons[:MOST_NAMES]))}{hint}")
    return "; ".join(told)


def passing(report: AuditReport) -> list[str]:
    """Return how many files hold layers of which none could be judged, and do not fail; nothing if there are none."""
    count = sum(not one.fails for one in report.unjudged)
    hold = "holds" if count == 1 else "hold"
    return [f"{many(count, 'file')} {hold} layers of which none could be judged."] if count else []
