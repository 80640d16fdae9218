"""`Scan`: typed findings and notices for code scanning, which the SARIF and GitHub renderers print."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from tcprobe.report.document import Document
from tcprobe.schema.finding import Finding
from tcprobe.schema.place import Place

if TYPE_CHECKING:
    from tcprobe.rules.base import RuleDoc

NoticeKind = Literal["failed", "unjudged", "unused", "unseen", "limit"]


@dataclass(frozen=True, slots=True)
class ScanResult:
    """One finding in a scan.

    Attributes:
        finding: as the rule made it.
        sentence: the finding in words.
        file: absolute path of the file read, for a finding without a place.
        properties: its figures; None for unknown.
        related: other places that it affects, each with a phrase.
        remedy: what its fix does, as an imperative; empty if it has none.
        suppressed: whether a comment in the source silences it.
        known: whether the baseline holds it.
    """

    finding: Finding
    sentence: str
    file: str
    properties: dict[str, Any]
    related: tuple[tuple[Place, str], ...] = ()
    remedy: str = ""
    suppressed: bool = False
    known: bool = False


@dataclass(frozen=True, slots=True)
class Notice:
    """Something to know about the scan itself.

    Attributes:
        kind: failed (the file was not read), unjudged (no layer of it could be judged, and so it fails), unused (a
            suppression that silences nothing), unseen (something that could not be judged), limit (of the whole scan).
        text: the notice in words, without its kind.
        file: absolute path; None for a limit.
        place: where in the file; None if no line is known.
    """

    kind: NoticeKind
    text: str
    file: str | None = None
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Scan:
    """All findings and notices of a scan.

    Attributes:
        root: absolute path of the folder that paths are relative to; empty if unknown.
        rules: documentation of the rules.
        results: findings, then suppressed ones, then known ones, each in the order of file and line.
        notices: ordered by kind.
    """

    root: str
    rules: tuple[RuleDoc, ...]
    results: tuple[ScanResult, ...]
    notices: tuple[Notice, ...]


class Scanned(Document, Protocol):
    """A document that can be shown by code scanning."""

    def scan(self) -> Scan:
        """Return its findings and notices."""
