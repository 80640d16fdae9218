"""The one door for text on its way to a person: no name of a file, profile or option steers a terminal or hides.

Text is made visible once, where it is printed: lines by `tell`, `say` and `put`, documents by
`tcprobe.report.Renderer`. Nothing else in tcprobe prints. Data for programs (JSON, CSV, a diff) stays as it is in
files and pipes; on a terminal it is made visible too.
"""

from __future__ import annotations

import io
import os
import re
import sys
import unicodedata
from collections.abc import Iterable
from contextlib import suppress
from typing import Final, TextIO

HIDDEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode's categories: control, format (bidi, zero width, tags), lone surrogates, private, unassigned, separators."""
MARKS: Final = frozenset({"Mn", "Me"})
"""Categories of marks, which stand on the character before them and take no room of their own."""
UNENCODABLE: Final = "backslashreplace"  # a name that an encoding lacks must not cost the rest
MOST_MARKS: Final = 4  # on one character: no script in use needs more, and a flood of them covers other lines
MOST_SHOWN: Final = 4096  # characters of a text for people; the longest name of a kernel that was recorded has 8,078
_KEPT: Final = 480  # of a longer one, at its beginning and at its end
_COMMAND: Final = re.compile(r"^(\s*):(?=:)|#(?=#\w*\[)", re.MULTILINE)
"""Where a line would command the machine that runs it: ``::error::`` at its start, ``##[error]`` or ``##vso[`` in it.

Source: actions/runner, src/Runner.Common/ActionCommand.cs (TryParse, TryParseV2); Azure DevOps, "Logging commands".
"""
_UNDRAWN: Final = frozenset(
    (
        *(0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180F, 0x3164, 0xFFA0),
        *(*range(0x180B, 0x180E), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)),
    )
)
"""Characters of other categories that are not drawn: fillers, joiners, variation selectors.

Source: the Unicode Character Database, DerivedCoreProperties.txt, Default_Ignorable_Code_Point.
"""


def visible(text: str) -> str:
    """Return `text` with what is not seen as its escapes in Python (``\\x1b``, ``\\u202e``), on one line.

    So are marks without a character to stand on, and those past `MOST_MARKS` on one.
    """
    if text.isascii() and text.isprintable():
        return text
    shown, marks = [], MOST_MARKS
    for character in text:
        category = unicodedata.category(character)
        marks = marks + 1 if category in MARKS else 0
        if category in HIDDEN or ord(character) in _UNDRAWN or marks > MOST_MARKS:
            character, marks = character.encode("unicode_escape").decode("ascii"), MOST_MARKS
        shown.append(character)
    return "".join(shown)


def shown(text: str) -> str:
    """Return a text for people: visible, and of one past `MOST_SHOWN` characters both ends and its length."""
    if len(text) > MOST_SHOWN:
        text = f"{text[:_KEPT]}... ({len(text):,} characters) ...{text[-_KEPT:]}"
    return visible(text)


def inert(text: str) -> str:
    """Return lines that command no CI machine which reads what is printed: the first mark of a command is escaped."""
    return _COMMAND.sub(lambda found: f"{found[1] or ''}\\x{ord(found[0][-1]):x}", text)


def columns(text: str) -> int:
    """Return how many columns of a terminal visible text takes: two for wide characters, none for marks."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def _columns(character: str) -> int:
    if unicodedata.category(character) in MARKS:
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def tell(*lines: str, start: str = "") -> None:
    """Write lines to standard error, long ones shortened; `start`, before each, is written as it is."""
    _write(sys.stderr, (inert(shown(line)) for line in lines), start)


def say(text: str, start: str = "") -> None:
    """Write one line of tcprobe's own to standard error."""
    tell(f"tcprobe: {text}", start=start)


def interject(text: str) -> None:
    """Say something from the handler of a signal, on a line of its own.

    A handler may interrupt a print, whose buffer then refuses a second writer: this writes around it.
    """
    with suppress(OSError):  # a terminal that is gone is no reason to end
        os.write(2, f"\ntcprobe: {visible(text)}\n".encode(errors=UNENCODABLE))


def pass_on(content: bytes) -> None:
    """Write what a workload meant for standard error, which it shares with us, as it is."""
    sys.stderr.flush()
    with suppress(OSError):
        while content:
            content = content[os.write(2, content) :]


def put(*lines: str) -> None:
    """Write lines to standard output."""
    _write(sys.stdout, (inert(visible(line)) for line in lines))


def hand_over(content: bytes) -> None:
    """Write data to standard output: as it is, but for a terminal, where it is made visible, tabs as spaces."""
    if not content:
        return
    if sys.stdout.isatty():
        lines = content.decode("utf-8", UNENCODABLE).removesuffix("\n").split("\n")
        _write(sys.stdout, (visible(line.expandtabs()) for line in lines))
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(content)


def encodable(out: TextIO) -> TextIO:
    """Return a stream, set up to escape what its encoding lacks."""
    if isinstance(out, io.TextIOWrapper):
        out.reconfigure(errors=UNENCODABLE)
    return out


def _write(out: TextIO, lines: Iterable[str], start: str = "") -> None:
    encodable(out).writelines(f"{start}{line}\n" for line in lines)
    out.flush()
