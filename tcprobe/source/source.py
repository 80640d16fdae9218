"""A file of the user's, parsed: names, literals, calls and their places; and what was seen of its values."""

from __future__ import annotations

import ast
import io
import tokenize
import warnings
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from tcprobe.errors import UnreadableInput, WrongFormat
from tcprobe.foreign import read
from tcprobe.schema.model import CellLine, Place
from tcprobe.source.calls import Call, CallTable
from tcprobe.source.imports import LONGEST_SOURCE, MOST_BYTES, Reexports, file_of, note_folders
from tcprobe.source.names import DottedNames
from tcprobe.source.paths import added_folders
from tcprobe.source.routines import Routines
from tcprobe.source.values import Known
from tcprobe.source.walk import Walk

if TYPE_CHECKING:
    from tcprobe.source.notebook import Notebook


class Readings(Protocol):
    """What following a file from top to bottom has shown of its expressions."""

    def known(self, node: ast.expr) -> Known | None:
        """Return the value of an expression where the file alone decides it; None otherwise."""

    def seen(self, node: ast.expr) -> list[Known]:
        """Return the constants that an expression was seen to be; at most 64, none beyond."""

    def likely(self, node: ast.expr) -> Known | None:
        """Return the one constant that an expression was always seen to be, though an option may make it another."""


LONGEST_NOTEBOOK: Final = 50_000_000
"""Bytes of a notebook that are read, most of them pictures."""
_LONGEST_REASON: Final = 200  # characters; an encoding may be declared in a line of any length


class TooLong(UnreadableInput):
    """A file of more text than is read."""


Follow: TypeAlias = Callable[["Source"], Readings]


class Source(Struct, eq=False, dict=True, weakref=True):
    """One parsed file."""

    path: str  # absolute path
    text: str  # the whole text, line ends as they stand in the file
    tree: ast.Module  # its syntax tree
    lines: list[str]  # its lines, with their ends
    walk: Walk  # scopes, bindings and functions of the file
    _follow: Follow
    notebook: Notebook | None = None  # the cells, if the file is a notebook; `text` is then the module that they make
    folder: str | None = None  # absolute path of the folder that is audited with it; None where it was named by itself

    @classmethod
    def read(cls, path: Path | str, follow: Follow, folder: str | None = None) -> Source:
        """Read and parse a file.

        Args:
            path: the file.
            follow: finds what its expressions are, when that is asked for first.
            folder: absolute path of the folder that is audited with it; None where it was named by itself.

        Raises:
            MissingInput: there is no such file.
            UnreadableInput: the system refuses it; or as `decode`.
            WrongFormat: it is no regular file, or too large; or as `decode`.
            UnsupportedVersion: as `decode`.
        """
        data = read(Path(path), MOST_BYTES)
        return cls.decode(data, str(Path(path).absolute()), follow, folder)

    @classmethod
    def decode(cls, data: bytes, path: str, follow: Follow, folder: str | None = None) -> Source:
        """Parse the bytes of a file, in the encoding that it declares (PEP 263); the rest as for `read`.

        Raises:
            UnreadableInput: it is not text in its encoding; `TooLong`: it is too much to read.
            WrongFormat: it is no Python, with the line, or no notebook; or nested too deeply to be read.
            UnsupportedVersion: it is a notebook that is too old, or in another language.
        """
        if len(data) > LONGEST_NOTEBOOK:
            raise TooLong(path, f"has {len(data):,} bytes; at most {LONGEST_NOTEBOOK:,} are read")
        if b"\0" in data:
            raise UnreadableInput(path, "is binary, not Python source")
        try:
            encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
            text = data.decode(encoding)
        except (SyntaxError, UnicodeError, LookupError) as error:
            reason = str(error)
            reason = reason if len(reason) <= _LONGEST_REASON else f"{reason[:_LONGEST_REASON]}..."
            raise UnreadableInput(path, f"is not text in its encoding ({reason})") from None
        text = text.removeprefix("\ufeff")
        if not path.endswith(".ipynb"):
            return cls.parse(text, path, follow, folder)
        from tcprobe.source.notebook import read_notebook  # most files are none

        notebook = read_notebook(text, path)
        source = cls.parse(notebook.text, path, follow, folder)
        source.notebook = notebook
        return source

    @classmethod
    def parse(cls, text: str, path: str, follow: Follow, folder: str | None = None) -> Source:
        """Parse the text of a file; `follow` and `folder` as for `read`.

        Raises:
            WrongFormat: it is no Python, with the line; or nested too deeply to be read.
            TooLong: it is too much to read.
        """
        if len(text) > LONGEST_SOURCE:
            raise TooLong(path, f"has {len(text):,} characters of Python; at most {LONGEST_SOURCE:,} are read")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of the compiler's, about escapes and numbers: not ours to tell
                tree = ast.parse(text)
            walk = Walk(tree)
        except SyntaxError as error:
            where = f"line {error.lineno}: " if error.lineno else ""
            raise WrongFormat(path, f"{where}{error.msg}", "is it Python 3?") from None
        except (RecursionError, MemoryError):
            raise WrongFormat(path, "nested too deeply to be read") from None
        except ValueError as error:
            raise WrongFormat(path, str(error)) from None
        note_folders(path, added_folders(tree, path) if "sys.path" in text or "addsitedir" in text else ())
        return cls(path, text, tree, lines_of(text), walk, follow, folder=folder)

    def name_of(self, node: ast.expr) -> str | None:
        """Return the canonical dotted name behind imports and simple aliases; None where it is not known."""
        return self.names.canonical(node)

    def is_of_tree(self, dotted: str) -> bool:
        """Return whether a dotted name is of a module of the file's own tree."""
        modules = (dotted[:end] for end, mark in enumerate(dotted) if mark == ".")
        return any(file_of(module, self.path, self.folder) is not None for module in modules)

    def followed(self, follow: Follow) -> Source:
        """Return the same file, followed in another way."""
        return replace(self, _follow=follow)

    def edited(self, text: str) -> Source:
        """Return the same file with another text, followed in the same way.

        Raises:
            WrongFormat: it is no Python any more.
        """
        return Source.parse(text, self.path, self._follow, self.folder)

    @cached_property
    def readings(self) -> Readings:
        """What following the file has shown; it is followed once."""
        return self._follow(self)

    def known(self, node: ast.expr) -> Known | None:
        """Return the value of an expression where the file alone decides it; None otherwise.

        In a loop over constants, and in a function that is called with several, an expression has several values:
        then it is None, and `seen` has them.
        """
        return self.readings.known(node)

    def seen(self, node: ast.expr) -> list[Known]:
        """Return every constant that the file shows an expression to be, though it may be others as well.

        One per iteration of a loop over constants, per call of the function around it. At most 64; none beyond.
        """
        return self.readings.seen(node)

    def likely(self, node: ast.expr) -> Known | None:
        """Return the one constant that an expression was always seen to be, though an option may make it another."""
        return self.readings.likely(node)

    def calls(self) -> tuple[Call, ...]:
        """Return every call with a canonical name, in the order of their places."""
        return self._calls.named

    def call_of(self, node: ast.Call) -> Call:
        """Return a call with its arguments under their names; its name is empty where it is not known."""
        return self._calls.of(node)

    def call_at(self, line: int, class_name: str | None = None) -> Call | None:
        """Return the call that starts on, or spans, a line and whose name ends in `class_name`.

        Calls that start on the line come before those that only span it; of these the innermost. None where there
        is none, or several that start there.
        """
        return self._calls.at(line, class_name)

    def place(self, node: ast.AST) -> Place:
        """Return where a node stands, in characters."""
        line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
        end_line, end = getattr(node, "end_lineno", None), getattr(node, "end_col_offset", None)
        return Place(
            self.path,
            line,
            self._column(line, column),
            end_line,
            self._column(end_line, end) if end_line is not None and end is not None else None,
            self.in_cell(line),
        )

    def in_cell(self, line: int) -> CellLine | None:
        """Return which line of which cell a line of the file is; None where it is no notebook."""
        return None if self.notebook is None else self.notebook.at(line)

    def segment(self, place: Place) -> str:
        """Return the text at a place; to the end of the line where its end is not known."""
        end_line = place.end_line or place.line
        if not 1 <= place.line <= end_line <= len(self.lines):
            return ""
        rows = self.lines[place.line - 1 : end_line]
        if place.end_column is not None:
            rows[-1] = rows[-1][: place.end_column - 1]
        rows[0] = rows[0][place.column - 1 :]
        text = "".join(rows)
        return text if place.end_column is not None else text.rstrip("\r\n")

    @cached_property
    def routines(self) -> Routines:
        """Which functions of the file its calls may reach, and what that tells against values that were seen."""
        return Routines(self.walk, self.names)

    @cached_property
    def names(self) -> DottedNames:
        """What the names of the file stand for."""
        return DottedNames(self.walk, Reexports(self.path, self.folder))

    @cached_property
    def _calls(self) -> CallTable:
        return CallTable(self.walk, self.names, self.known, self.place)

    def _column(self, line: int, offset: int) -> int:
        """Return the column in characters, from 1, of an offset in bytes of UTF-8, as syntax trees have it."""
        text = self.lines[line - 1] if line <= len(self.lines) else ""
        return offset + 1 if text.isascii() else len(text.encode()[:offset].decode(errors="ignore")) + 1


def lines_of(text: str) -> list[str]:
    """Split into lines as Python's own tokenizer does: a form feed or a Unicode separator ends none."""
    return io.StringIO(text, newline="").readlines()
