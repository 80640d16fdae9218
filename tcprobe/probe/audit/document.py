"""Holds what an audit found: steps, what was not audited, notes, and the error that ended it."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from ..tensorflow.graph.records import Record

SCHEMA = 1


class AuditRecord:
    """The content of audit.json as it comes together.

    Attributes:
        path: the audited file.
        steps: those of the script's own.
        units: steps that tcprobe made for models.
        unseen: what of the file was not audited, and why.
        notes: what the report should say.
        incomplete: whether the file was left before its end.
        error: why there is nothing, None where there is something.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.steps: List[Record] = []
        self.units: List[Record] = []
        self.unseen: List[Record] = []
        self.notes: List[str] = []
        self.incomplete = False
        self.error: Optional[Record] = None

    def not_seen(self, what: str, reason: str, line: Optional[int] = None) -> None:
        """Note what was not audited; `line` is where it stands."""
        place = "%s:%d" % (self.path, line) if line else None
        self.unseen.append({"what": what, "reason": reason, "place": place})

    def fail(self, kind: str, message: str, hint: Optional[str] = None, output: bool = False) -> None:
        """Say why there is nothing.

        Args:
            kind: as of `NothingToAudit`, ``raised`` where the file did, ``input`` where something else went wrong.
            message: what was found.
            hint: what to do.
            output: whether what the script printed says more.
        """
        self.error = {"kind": kind, "message": message, "hint": hint, "output": output}

    def content(self, facts: Dict[str, Any], gaps: List[Dict[str, str]]) -> Record:
        """Return audit.json; `facts` are of the frameworks."""
        return {
            "schema": SCHEMA,
            "finished": True,
            **facts,
            "units": [*self.steps, *self.units],
            "unseen": self.unseen,
            "notes": self.notes,
            "incomplete": self.incomplete,
            "error": self.error,
            "gaps": gaps,
        }
