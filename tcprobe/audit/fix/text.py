"""Edits of source text: made, and shown as a diff.

An edit replaces the text of an exact place and nothing else, so formatting, comments, line ends and tabs outside it
stay bit for bit; the same edits go into SARIF.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import accumulate
from pathlib import Path

from tcprobe.errors import InputError
from tcprobe.schema.finding import Edit, Finding, Fix
from tcprobe.schema.model import Place
from tcprobe.source.source import Source, lines_of


def apply(fixes: Iterable[Fix | Finding | None], sources: Mapping[str, Source]) -> dict[str, str]:
    """Return the new text of every file that the fixes change, by absolute path.

    Raises:
        InputError: the text at a place is not what the fix expects: the file changed since it was read.
    """
    return {file: edited(sources[file].text, edits, file) for file, edits in by_file(fixes).items()}


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
        lines = difflib.unified_diff(lines_of(sources[file].text), lines_of(after), f"a/{name}", f"b/{name}")
        parts.extend(x if x.endswith("\n") else f"{x}\n\\ No newline at end of file\n" for x in lines)
    return "".join(parts)


def by_file(fixes: Iterable[Fix | Finding | None]) -> dict[str, list[Edit]]:
    """Return the edits of all fixes by file, each once.

    A fix is made whole or not at all: one that asks for something else where an earlier one has been is left out.
    """
    made: dict[Edit, None] = {}
    for item in fixes:
        fix = item.fix if isinstance(item, Finding) else item
        if fix is not None and not any(_clash(edit, other) for edit in fix.edits for other in made):
            made.update(dict.fromkeys(fix.edits))
    files = sorted({edit.place.file for edit in made})
    return {file: [edit for edit in made if edit.place.file == file] for file in files}


def edited(text: str, edits: Iterable[Edit], file: str) -> str:
    """Return `text` with the edits made.

    Raises:
        InputError: a place lies outside the text, or other text stands there.
    """
    starts = [0, *accumulate(map(len, lines_of(text)))]
    for edit in sorted(edits, key=lambda e: _span(e.place), reverse=True):
        line, column, end_line, end_column = _span(edit.place)
        inside = end_line <= len(starts)
        start, end = (starts[line - 1] + column - 1, starts[end_line - 1] + end_column - 1) if inside else (0, 0)
        if not inside or text[start:end] != edit.before:
            raise InputError(file, "it changed since it was read; nothing was written", "run the audit again")
        text = text[:start] + edit.after + text[end:]
    return text


def _span(place: Place) -> tuple[int, int, int, int]:
    """Return line and column of both ends."""
    return place.line, place.column, place.end_line or place.line, place.end_column or place.column


def _clash(a: Edit, b: Edit) -> bool:
    one, two = _span(a.place), _span(b.place)
    apart = a == b or a.place.file != b.place.file
    return not apart and (one == two or (one[:2] < two[2:] and two[:2] < one[2:]))
