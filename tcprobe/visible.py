"""Make text from files visible, so that a name cannot control a terminal or hide in a line."""

from __future__ import annotations

import unicodedata
from typing import Final

INVISIBLE: Final = frozenset(
    {"Cc", "Cf", "Zl", "Zp"}
)  # Unicode's categories: control, format (bidi, zero width), separators


def visible(text: str) -> str:
    """Return `text` with control and formatting characters as their escapes in Python (``\\x1b``, ``\\u202e``)."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escaped(c) if unicodedata.category(c) in INVISIBLE else c for c in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
