"""What a browser shows of an audit first: the models, what badly sized layers cost, and which to change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from tcprobe import formatting as f
from tcprobe.report.audit import screen, words
from tcprobe.report.document import First, Task, TextLine
from tcprobe.schema.finding import AuditReport

LIKELY: Final = ("likely", "at most")


def first_of(report: AuditReport, cwd: str) -> First:
    """Return the first screen of an audit in its pieces, in the words of the terminal's."""
    found = screen.Found.of(report)
    heads = tuple(_pair(line) for line in screen.model_lines(report, cwd, screen.UNLIMITED))
    answer = _text(screen.answer_lines(report, found, screen.UNLIMITED))
    rest = tuple(map(_plain, screen.rest_lines(report, found.notes, cwd, screen.UNLIMITED)))
    tasks = tuple(_tasks(found.listed, cwd))
    left = len(found.listed) - len(tasks)
    return First(
        heads, ("", answer, ""), found.style, rest, "", "", (), (), tasks,
        "", f"{f.many(left, 'more finding')}: the table below has them." if left > 0 else "",
        screen.basis_of(report) or "",
    )  # fmt: skip


def _plain(line: TextLine) -> str:
    return "".join(part.text for part in line.parts)


def _text(lines: Iterable[TextLine]) -> str:
    return " ".join(map(_plain, lines))


def _pair(line: TextLine) -> tuple[str, str]:
    name, _, said = _plain(line).partition("  ")
    return name, said


def _tasks(severe: list[screen.FoldedFindings], cwd: str) -> Iterator[Task]:
    """Yield the costliest findings: layer and change, what that saves, where it stands."""
    for one in severe[: screen.MOST]:
        finding, saved = one.finding, one.finding.saving_ns
        title = ": ".join(filter(None, (finding.layer, words.change(finding)))) or finding.code
        saves = () if saved is None else tuple(zip(LIKELY, (f.likely(saved), screen.at_most(saved)), strict=True))
        share = "" if finding.saving_pct is None else words.floor_percent(finding.saving_pct.mid)
        place = words.location_text(finding.place, one.audited.file, cwd)
        yield Task(title, saves, share, finding.code, words.message_with_reason(finding), place)
