"""Regular expressions that are compiled when they are first used: for modules that a start of the command line loads.

Compiling one takes 0.1 to 1 ms; of the fifty of an audit, one of a plain file uses a few.
"""

from __future__ import annotations

import re
from typing import Any, cast


def pattern(text: str, flags: re.RegexFlag | int = 0) -> re.Pattern[str]:
    """Return what behaves as ``re.compile(text, flags)``; an error in `text` shows when it is first used."""
    return cast("re.Pattern[str]", _Pattern(text, flags))


class _Pattern:
    """Takes each method of the compiled expression when it is first asked for, and keeps it."""

    def __init__(self, text: str, flags: re.RegexFlag | int) -> None:
        self._text, self._flags = text, flags

    def __getattr__(self, name: str) -> Any:
        value = getattr(re.compile(self._text, self._flags), name)  # `re` keeps what it has compiled
        setattr(self, name, value)
        return value
