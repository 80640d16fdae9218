"""Holds what an audit found: steps, what was not audited, notes, and the error that ended it.

What was raised it says in one line: what is wrong, and where in the user's code.
"""

from __future__ import annotations

import re
import traceback
from typing import Any, Dict, List, Optional

from ..core.lines import USER, rank
from ..tensorflow.graph.records import Record

ANSI_CODES = re.compile("\x1b\\[[0-9;]*m")
RAISED = re.compile(r"[\w.]*(?:Error|Exception)\b[^(]*:")
USER_CODE = "in user code:"  # AutoGraph; a traceback follows, and what was raised
LONGEST_RAISED = 1000  # characters of a line; what was raised stands at its beginning
WRAPPED = "Exception encountered when calling"  # Keras; the line behind it says what it was


def status(code: Any) -> str:
    """Return what a script exited with, in one line."""
    return str(code).splitlines()[0] if isinstance(code, str) and code else str(code)


def in_one_line(error: Optional[BaseException], path: str, line_around: Optional[str] = None) -> str:
    """Return what was raised and at which line of the user's, in one line.

    Args:
        error: what was raised.
        path: the file, for an error that names none.
        line_around: ``file:line`` where the traceback has no line of the user's.
    """
    text = "".join(traceback.format_exception_only(type(error), error)).strip().splitlines()
    line = next((t for t in reversed(text) if t.strip()), type(error).__name__) if text else type(error).__name__
    if isinstance(error, SyntaxError):
        return "%s (%s:%s)" % (line, error.filename or path, error.lineno)
    frames = traceback.extract_tb(error.__traceback__ if error is not None else None)
    place = next((f for f in reversed(frames) if rank(f.filename) == USER), None)
    at = "%s:%s" % (place.filename, place.lineno) if place else line_around
    return (telling_line(text) or line)[:300] + (" (%s)" % at if at else "")


def telling_line(text: List[str]) -> str:
    """Return the line of an error's text that says what is wrong: AutoGraph and Keras put others before it."""
    lines = [t for t in (ANSI_CODES.sub("", line).strip() for line in text) if t]
    name = lines[0].partition(":")[0] if lines else ""
    while len(lines) > 1:
        if lines[0].endswith(USER_CODE):
            lines = lines[
                next((i for i, t in enumerate(lines) if i and RAISED.match(t[:LONGEST_RAISED])), len(lines) - 1) :
            ]
        elif WRAPPED in lines[0]:
            lines = lines[1:] if lines[1].endswith(USER_CODE) else ["%s: %s" % (name, lines[1])]
        else:
            break
    return lines[0] if lines else ""


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
