"""Fixes written back to their files: all of them or none, encoded as they were."""

from __future__ import annotations

import io
import os
import tokenize
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tcprobe.audit.fix.source.text import compatible, edited
from tcprobe.errors import InputError, MissingInput, OutputError, cannot_write
from tcprobe.foreign import read as read_bytes
from tcprobe.schema.finding import Edit, Finding, Fix
from tcprobe.source.imports import MOST_BYTES

if TYPE_CHECKING:
    from tcprobe.source.source import Source


def write(fixes: Iterable[Fix | Finding | None], sources: Mapping[str, Source]) -> list[str]:
    """Write what `apply` would change, and return the files written.

    Every file is read again first. Encoding, byte-order mark, line ends, permissions and owner stay; a file is replaced
    whole, so that an interrupted run leaves the old or the new one. A file that has other names (hard links) is left
    alone: they would keep the old text.

    Raises:
        MissingInput, UnreadableInput: a file is gone, or the system refuses to read it.
        InputError: a file changed since it was read, or cannot hold the new text in its encoding.
        OutputError: a file has other names, or the system refused to write. In each case but the last nothing was
            written; then at most a part of the files, each of them whole.
    """
    by_file: dict[str, list[Edit]] = {}
    for edit in compatible(fixes):
        by_file.setdefault(edit.place.file, []).append(edit)
    contents = {file: _content(file, edits, sources[file].text) for file, edits in sorted(by_file.items())}
    staged: dict[Path, Path] = {}
    try:
        for file, content in contents.items():
            path = Path(os.path.realpath(file))
            _check_single(path)
            staged[path] = _staged(path, content)
        for path in list(staged):
            staged.pop(path).replace(path)
    except OSError as error:
        raise cannot_write(path, error) from None
    finally:
        for left in staged.values():
            with suppress(OSError):  # what failed before is what counts
                left.unlink(missing_ok=True)
    return list(contents)


def _check_single(path: Path) -> None:
    if (names := path.stat().st_nlink) > 1:
        raise OutputError(
            f"{path}: has {names} names (hard links), and a change would part them; nothing was written",
            "make a copy of it, or change it by hand (--diff shows how)",
        )


def _content(file: str, edits: list[Edit], read: str) -> bytes:
    """Return the bytes of the edited file, from those that it holds now."""
    try:
        raw = read_bytes(Path(file), MOST_BYTES)
    except MissingInput:
        raise MissingInput(file, "it is gone; nothing was written") from None
    except InputError as error:
        raise type(error)(file, f"{error.found}; nothing was written") from None
    return _edited(raw, file, edits, read)


def edited_bytes(raw: bytes, file: str, fixes: Iterable[Fix | Finding | None], source: Source) -> bytes:
    """Return the bytes of a file with the edits that the fixes make in it; encoding and byte-order mark stay.

    Raises:
        InputError: `source` was read from other bytes, or the encoding cannot hold the new text.
    """
    return _edited(raw, file, [edit for edit in compatible(fixes) if edit.place.file == file], source.text)


def _edited(raw: bytes, file: str, edits: list[Edit], read: str) -> bytes:
    try:
        encoding = tokenize.detect_encoding(io.BytesIO(raw).readline)[0]
        text = raw.decode(encoding)
    except (SyntaxError, UnicodeDecodeError):
        raise _changed(file) from None
    if _plain(text) != _plain(read):
        raise _changed(file)
    return edited(text, edits, file).encode(encoding)


def _changed(file: str) -> InputError:
    return InputError(file, "it changed since it was read; nothing was written", "run the audit again")


def _plain(text: str) -> str:
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def _staged(path: Path, content: bytes) -> Path:
    """Return a file beside `path` with the new content, the old permissions and the old owner."""
    import tempfile

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
