"""Edits of source text: made, checked, shown as a diff.

An edit replaces the text of an exact place and nothing else, so formatting, comments, line ends and tabs outside it
stay bit for bit without a syntax tree having to reproduce them; the same edits go into SARIF. What a tree is good
for, the certainty that the result parses and means what is wanted, is had by parsing it again.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from tcprobe.errors import InputError
from tcprobe.schema.finding import Edit, Finding, Fix
from tcprobe.schema.model import Model
from tcprobe.schema.place import Place

if TYPE_CHECKING:
    from tcprobe.source.source import Source

Read: TypeAlias = "Callable[[Source], list[Model]]"
"""What returns the models that a file constructs."""
_NUMBER: Final = re.compile(r"\d[\da-fA-FxXoO_]*", re.ASCII)
_WORD: Final = re.compile(r"[\w.]")
_LINE_END: Final = re.compile(r"\r\n|\r|\n")


def apply(fixes: Iterable[Fix | Finding | None], sources: Mapping[str, Source]) -> dict[str, str]:
    """Return the new text of every file that the fixes change, by absolute path.

    A fix is made whole or not at all: one that asks for something else where an earlier one has been is left out;
    equal edits are made once.

    Raises:
        InputError: the text at a place is not what the fix expects: the file changed since it was read.
    """
    by_file: dict[str, list[Edit]] = {}
    for edit in compatible(fixes):
        by_file.setdefault(edit.place.file, []).append(edit)
    return {file: edited(sources[file].text, edits, file) for file, edits in sorted(by_file.items())}


def diff(fixes: Iterable[Fix | Finding | None], sources: Mapping[str, Source], root: str | None = None) -> str:
    """Return a unified diff of what `apply` would change, ``a/`` and ``b/`` before paths relative to `root`.

    Empty where nothing changes. `root` is the working directory where None; a file outside it keeps its whole path.
    """
    import difflib

    base = Path(root) if root is not None else Path.cwd()
    parts: list[str] = []
    for file, after in apply(fixes, sources).items():
        path = Path(file)
        name = (path.relative_to(base) if path.is_relative_to(base) else path).as_posix().lstrip("/")
        lines = difflib.unified_diff(_lines(sources[file].text), _lines(after), f"a/{name}", f"b/{name}")
        parts.extend(x if x.endswith("\n") else f"{x}\n\\ No newline at end of file\n" for x in lines)
    return "".join(parts)


def compatible(fixes: Iterable[Fix | Finding | None]) -> list[Edit]:
    """Return the edits of all fixes that can be made together, each once, in the order of their places."""
    made: list[Edit] = []
    for item in fixes:
        fix = item.fix if isinstance(item, Finding) else item
        if fix is not None and not any(_clash(edit, other) for edit in fix.edits for other in made):
            made.extend(edit for edit in dict.fromkeys(fix.edits) if edit not in made)
    return sorted(made, key=lambda e: (e.place.file, *span(e.place)))


def edited(text: str, edits: Iterable[Edit], file: str) -> str:
    """Return `text` with the edits made.

    Raises:
        InputError: a place lies outside the text, or other text stands there.
    """
    starts = line_starts(text)
    for edit in sorted(edits, key=lambda e: span(e.place), reverse=True):
        start, end = offsets(edit.place, starts)
        if text[start:end] != edit.before:
            raise InputError(file, "it changed since it was read; nothing was written", "run the audit again")
        text = text[:start] + edit.after + text[end:]
    return text


def sound(before: str, after: str, edits: Iterable[Edit]) -> bool:
    """Say whether the edited text parses, and every token outside the edits is what it was.

    A token next to an edit stays what it is where a number replaces a number that touches no letter or digit; the rest
    of the text is not touched, which is proof enough.
    """
    starts = line_starts(before)
    try:
        ast.parse(after)
    except (SyntaxError, ValueError):
        return False
    return all(_apart(edit, before, *offsets(edit.place, starts)) for edit in edits)


def _apart(edit: Edit, text: str, start: int, end: int) -> bool:
    left, right = text[max(start - 1, 0) : start], text[end : end + 1]
    numbers = _NUMBER.fullmatch(edit.before) and _NUMBER.fullmatch(edit.after)
    return bool(numbers) and not _WORD.match(left) and not _WORD.match(right)


def span(place: Place) -> tuple[int, int, int, int]:
    """Return line and column of both ends; a place without an end is empty."""
    line = place.line if place.end_line is None else place.end_line
    return place.line, place.column, line, place.column if place.end_column is None else place.end_column


def inside(inner: Place, outer: Place) -> bool:
    """Say whether a place lies within another, or is the same."""
    a, b = span(inner), span(outer)
    return inner.file == outer.file and b[:2] <= a[:2] and a[2:] <= b[2:]


def line_starts(text: str) -> list[int]:
    """Return where each line begins, lines ending as Python's do: not at a form feed."""
    return [0, *(match.end() for match in _LINE_END.finditer(text))]


def offsets(place: Place, starts: list[int]) -> tuple[int, int]:
    """Return start and end of a place in the text; an empty stretch at -1 where it lies outside."""
    line, column, end_line, end_column = span(place)
    if end_line > len(starts):
        return -1, -1
    return starts[line - 1] + column - 1, starts[end_line - 1] + end_column - 1


def _clash(a: Edit, b: Edit) -> bool:
    if a == b or a.place.file != b.place.file:
        return False
    one, two = span(a.place), span(b.place)
    return one == two or (one[:2] < two[2:] and two[:2] < one[2:])


def _lines(text: str) -> list[str]:
    starts = [*line_starts(text), len(text)]
    return [text[a:b] for a, b in itertools.pairwise(starts) if a < b]
