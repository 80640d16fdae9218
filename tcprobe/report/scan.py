"""What code scanning shows beside the lines of a program: findings and notices, typed; SARIF and GitHub take it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from tcprobe.report.document import Document
from tcprobe.schema.finding import Finding
from tcprobe.schema.place import Place

if TYPE_CHECKING:
    from tcprobe.rules.base import RuleDoc

NoticeKind = Literal["failed", "unused", "unseen", "limit"]


@dataclass(frozen=True, slots=True)
class Result:
    """One finding.

    Attributes:
        finding: as the rule made it.
        sentence: it in words.
        file: absolute path of what was read, where the finding has no place.
        properties: figures that belong to it; None is unknown.
        related: other places that it touches, each with a phrase.
        remedy: what its fix does, as an order; empty where it has none.
        suppressed: a comment in the source silences it.
    """

    finding: Finding
    sentence: str
    file: str
    properties: dict[str, Any]
    related: tuple[tuple[Place, str], ...] = ()
    remedy: str = ""
    suppressed: bool = False


@dataclass(frozen=True, slots=True)
class Notice:
    """What to know of the scan itself.

    Attributes:
        kind: failed (the file was not read), unused (a suppression that silences nothing), unseen (what could not be
            judged), limit (of the whole scan).
        text: in words, without its kind.
        file: absolute path; None for a limit.
        place: where in the file; None where no line is known.
    """

    kind: NoticeKind
    text: str
    file: str | None = None
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Scan:
    """A whole scan.

    Attributes:
        root: folder to which paths are relative, absolute; empty where unknown.
        rules: documentation of the rules.
        results: those that count, then suppressed ones, each in the order of file and line.
        notices: by kind.
    """

    root: str
    rules: tuple[RuleDoc, ...]
    results: tuple[Result, ...]
    notices: tuple[Notice, ...]


class Scanned(Document, Protocol):
    """A document that code scanning can show."""

    def scan(self) -> Scan:
        """Return its findings and notices."""
