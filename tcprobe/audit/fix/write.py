"""Edits of source text: made, shown as a diff, and written to their files: all of them or none, encoded as they were.

An edit replaces the text of an exact place and nothing else, so formatting, comments, line ends and tabs outside it
stay bit for bit; the same edits go into SARIF.
"""

from __future__ import annotations

import io
import os
import tokenize
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from typing import TypeAlias

from tcprobe.errors import InputError, MissingInput, OutputError, cannot_write
from tcprobe.foreign import read as read_bytes
from tcprobe.foreign import real_path
from tcprobe.schema.finding import Edit, Finding, Fix
from tcprobe.schema.model import Place
from tcprobe.source.imports import MOST_BYTES
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


Change: TypeAlias = tuple[Path, bytes, bytes]
"""A file, what it holds, and what it shall hold."""


def write(fixes: Iterable[Fix | Finding | None], sources: Mapping[str, Source]) -> list[str]:
    """Write what `apply` would change, and return the files written: all of them or none.

    Every file is read again first. Encoding, byte-order mark, line ends, permissions and owner stay; all are written
    beside the old ones, which they then replace. Signals that would end the program are the caller's to hold.

    Raises:
        MissingInput, UnreadableInput: a file is gone, or the system refuses to read it.
        InputError: a file changed since it was read, or cannot hold the new text in its encoding.
        OutputError: a file may not be written, or the system refused. Then, too, nothing was written; where the system
            also refuses to put back what was, the message says which files have changed.
    """
    edits = by_file(fixes)
    old = {file: _read(file) for file in edits}
    new = {file: edited_bytes(raw, file, edits[file], sources[file]) for file, raw in old.items()}
    _replace_all([(real_path(file), old[file], new[file]) for file in new])
    return list(new)


def _replace_all(files: Sequence[Change]) -> None:
    staged: list[Path] = []
    done = 0
    try:
        for path, _, new in files:
            staged.append(_staged(path, new))
        for (path, _, _), made in zip(files, staged, strict=True):
            made.replace(path)
            done += 1
    except OSError as error:
        changed = _not_put_back(files[:done])
        failure = cannot_write(path, error)
        what = f"changed all the same: {', '.join(changed)}" if changed else "nothing was written"
        raise OutputError(f"{failure.message}; {what}", failure.hint) from None
    finally:
        _remove(staged[done:])


def _not_put_back(changed: Iterable[Change]) -> list[str]:
    """Give files what they held; return those for which the system refuses that, too."""
    left: list[str] = []
    for path, old, _ in changed:
        staged: list[Path] = []
        try:
            staged.append(_staged(path, old))
            staged[0].replace(path)
        except OSError:
            left.append(str(path))
            _remove(staged)
    return left


def _remove(staged: Iterable[Path]) -> None:
    for path in staged:
        with suppress(OSError):  # what failed before is what counts
            path.unlink(missing_ok=True)


def _read(file: str) -> bytes:
    try:
        return read_bytes(Path(file), MOST_BYTES)
    except MissingInput:
        raise MissingInput(file, "it is gone; nothing was written") from None
    except InputError as error:
        raise type(error)(file, f"{error.found}; nothing was written") from None


def edited_bytes(raw: bytes, file: str, edits: Iterable[Edit], source: Source) -> bytes:
    """Return the bytes of a file with edits made in it; encoding and byte-order mark stay.

    Raises:
        InputError: `source` was read from other bytes, or the encoding cannot hold the new text.
    """
    try:
        encoding = tokenize.detect_encoding(io.BytesIO(raw).readline)[0]
        text = raw.decode(encoding)
    except (SyntaxError, UnicodeDecodeError):
        text = ""
    if _plain(text) != _plain(source.text):
        raise InputError(file, "it changed since it was read; nothing was written", "run the audit again")
    return edited(text, edits, file).encode(encoding)


def _plain(text: str) -> str:
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def _staged(path: Path, content: bytes) -> Path:
    """Return a file beside `path` with the new content, the old permissions and the old owner."""
    import tempfile

    os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))  # refused where it may not be changed, only replaced
    old = path.stat()
    handle, name = tempfile.mkstemp(prefix=f".{path.name[:50]}.", dir=path.parent)  # the longest names leave no room
    made = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
        if (old.st_uid, old.st_gid) != (made.stat().st_uid, made.stat().st_gid):
            os.chown(made, old.st_uid, old.st_gid)
        made.chmod(old.st_mode & 0o7777)
    except OSError:
        with suppress(OSError):
            made.unlink(missing_ok=True)
        raise
    return made
