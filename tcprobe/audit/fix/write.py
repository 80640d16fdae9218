"""Fixes written back to their files: all of them or none, encoded as they were."""

from __future__ import annotations

import io
import os
import tokenize
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from tcprobe.audit.fix.text import by_file, edited
from tcprobe.errors import InputError, MissingInput, OutputError, cannot_write
from tcprobe.foreign import read as read_bytes
from tcprobe.foreign import real_path
from tcprobe.schema.finding import Edit, Finding, Fix
from tcprobe.source.imports import MOST_BYTES

if TYPE_CHECKING:
    from tcprobe.source.source import Source

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
