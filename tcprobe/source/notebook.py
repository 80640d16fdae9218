"""A Jupyter notebook as one Python module: the text of its cells, and which cell each line stands in.

The module has the cells' own lines and columns. What IPython alone understands is replaced by Python that keeps the
line: ``%`` and ``!`` lines by ``pass``, cells of another language by empty lines.

Source: nbformat 4, "The Notebook file format" (nbformat.readthedocs.io); IPython, "Built-in magic commands".
"""

from __future__ import annotations

import ast
import io
import json
import re
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, Final

from msgspec import Struct

from tcprobe.errors import UnsupportedVersion, WrongFormat
from tcprobe.schema.model import CellLine

_LONGEST_WORD: Final = 40  # characters of a foreign word in a message
_JSON: Final = json.JSONDecoder(strict=False)
_SPACE: Final = re.compile(r"[ \t\r\n]*")
_PYTHON_CELLS: Final = re.compile(r"%%(capture|debug|prun|time|timeit)\b")
_TIMED: Final = re.compile(r"^(\s*)%time (?=\s*\w)", re.MULTILINE)
_ASSIGNED: Final = re.compile(r"^(\s*[^\W\d][\w., \t]*=\s*)(?:%\w|!).*$")
_MAGIC: Final = re.compile(r"^(\s*)(?:%{1,2}\w|!|\?)|^(\s*)[%\w.*\[\]]+\?{1,2}\s*$")
_HOLDS_LAYERS: Final = re.compile(r"\b(?:keras|tensorflow|layers)\b")


class OtherLanguage(UnsupportedVersion):
    """A notebook whose cells are not Python."""


class UnreadCell(Struct, frozen=True):
    """A cell that is no part of the module."""

    line: int  # its first line in the module
    reason: str  # why it was not read


class Notebook(Struct, frozen=True):
    """The code cells of a notebook."""

    text: str  # the module that they make together
    written: str  # the cells as they are written, those that could not be read too
    lines: tuple[CellLine, ...]  # the cell that each line of `text` stands in
    # cells that could not be read; those of a cell magic only if they speak of layers
    unread: tuple[UnreadCell, ...] = ()

    def at(self, line: int) -> CellLine | None:
        """Return where a line of the module stands; None where it has no such line."""
        return self.lines[line - 1] if 0 < line <= len(self.lines) else None


def read_notebook(text: str, path: str) -> Notebook:
    """Return the module that a notebook's code cells make.

    Raises:
        WrongFormat: it is no notebook, or damaged.
        UnsupportedVersion: it is older than nbformat 4; `OtherLanguage`: its cells are not Python.
    """
    try:
        whole = _JSON.decode(text)
    except ValueError as error:
        raise WrongFormat(path, f"is no notebook: {error}") from None
    except RecursionError:
        raise WrongFormat(path, "nested too deeply to be read") from None
    if not isinstance(whole, dict) or not isinstance(whole.get("nbformat"), int):
        raise WrongFormat(path, "is JSON, but no notebook: it has no nbformat")
    if whole["nbformat"] < 4:
        version = f"is a notebook of nbformat {whole['nbformat']}; 4 and later are read"
        raise UnsupportedVersion(path, version, "jupyter nbconvert --to notebook --inplace converts it")
    if not isinstance(whole.get("cells"), list):
        raise WrongFormat(path, "is a notebook without cells")
    language = _language(whole.get("metadata"))
    if language and not language.startswith(("python", "ipython")):
        raise OtherLanguage(path, f"is a notebook in {language[:_LONGEST_WORD]}, not in Python")
    return _module(text, whole["cells"])


def _language(metadata: Any) -> str:
    """Return the language of a notebook in lower case; empty where it does not say."""
    known = metadata if isinstance(metadata, dict) else {}
    for part, key in (("language_info", "name"), ("kernelspec", "language")):
        said = known[part].get(key) if isinstance(known.get(part), dict) else None
        if isinstance(said, str) and said:
            return said.lower()
    return ""


def _module(text: str, cells: list[Any]) -> Notebook:
    made: list[str] = []
    written: list[str] = []
    lines: list[CellLine] = []
    unread: list[UnreadCell] = []
    for number, rows in _code_cells(text, cells):
        source = "".join(line for line, _ in rows)
        python, reason = _python(source)
        if reason:
            unread.append(UnreadCell(len(lines) + 1, reason))
        made += python
        written.append(source)
        lines += [CellLine(number, at, row) for at, (_, row) in enumerate(rows, 1)]
    return Notebook("".join(made), "".join(written), tuple(lines), tuple(unread))


def _code_cells(text: str, cells: list[Any]) -> Iterator[tuple[int, list[tuple[str, int]]]]:
    """Yield number and lines of each cell of Python, each line with the line of the file that it begins on."""
    counted, rows_above = 0, 1

    def row_of(place: int) -> int:
        nonlocal counted, rows_above  # places come in their order
        rows_above += text.count("\n", counted, place)
        counted = place
        return rows_above

    places = _entries(text, dict(_entries(text, _skip(text, 0)))["cells"])
    for number, (cell, (_, at)) in enumerate(zip(cells, places, strict=True), 1):
        if not isinstance(cell, dict) or cell.get("cell_type") != "code" or not _is_python(cell):
            continue
        source, begin = cell.get("source"), dict(_entries(text, at)).get("source")
        if begin is None or not isinstance(source, str | list):
            continue
        parts = [(source, begin)] if isinstance(source, str) else _texts(source, _entries(text, begin))
        rows = _lines([(part, row_of(place)) for part, place in parts])
        if rows:
            yield number, rows


def _texts(source: Sequence[Any], places: Iterator[tuple[Any, int]]) -> list[tuple[str, int]]:
    return [(part, at) for part, (_, at) in zip(source, places, strict=True) if isinstance(part, str)]


def _is_python(cell: dict[str, Any]) -> bool:
    """Say whether a cell is in the notebook's language; VS Code notes another one in the cell."""
    metadata = cell.get("metadata")
    editor = metadata.get("vscode") if isinstance(metadata, dict) else None
    return not isinstance(editor, dict) or editor.get("languageId") in (None, "python")


def _lines(parts: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    """Return the lines of a cell, each ended, with the row of the text that each begins in."""
    found: list[tuple[str, int]] = []
    for part, row in parts:
        for line in io.StringIO(part, newline=None):
            if found and not found[-1][0].endswith("\n"):
                found[-1] = found[-1][0] + line, found[-1][1]
            else:
                found.append((line, row))
    if found and not found[-1][0].endswith("\n"):
        found[-1] = f"{found[-1][0]}\n", found[-1][1]
    return found


def _python(source: str) -> tuple[list[str], str]:
    """Return the lines of a cell as Python, and why it could not be read: empty lines then."""
    lines = source.split("\n")
    blank = ["\n"] * source.count("\n")
    first = next((line for line in lines if line.strip()), "")
    if first.startswith("%%") and not _PYTHON_CELLS.match(first):
        return blank, f"is a cell of {first.split()[0][:_LONGEST_WORD]}" if _HOLDS_LAYERS.search(source) else ""
    if (wrong := _error(source)) is None:
        return [source], ""
    plain = "".join(_without_magic(lines))
    return ([plain], "") if _error(plain) is None else (blank, f"is no Python: {wrong}")


def _without_magic(lines: list[str]) -> Iterator[str]:
    """Yield lines without what IPython alone understands; a line of it goes on behind a backslash."""
    going_on = False
    for number, line in enumerate(lines):
        end = "\n" if number + 1 < len(lines) else ""
        timed = _TIMED.sub(r"\1if 1: ", line)  # as long as what it replaces
        magic = _MAGIC.match(line) if timed == line else None
        if going_on:
            yield end
        elif magic:
            yield f"{magic[1] or magic[2] or ''}pass{end}"
        else:
            yield _ASSIGNED.sub(r"\1get_ipython()", timed) + end
        going_on = line.endswith("\\") and (going_on or bool(magic))


def _error(text: str) -> str | None:
    """Return why a text is no Python; None where it is."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except SyntaxError as error:
        return f"line {error.lineno}: {error.msg}" if error.lineno else str(error.msg)
    except (ValueError, RecursionError, MemoryError) as error:
        return str(error) or "nested too deeply"
    return None


def _skip(text: str, at: int) -> int:
    """Return where the next character of JSON stands that is no space."""
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _entries(text: str, at: int) -> Iterator[tuple[str | None, int]]:
    """Yield key and place of each value of the JSON object or array at `at`, which is known to be whole."""
    keyed, at = text[at] == "{", _skip(text, at + 1)
    while text[at] not in "]}":
        key = None
        if keyed:
            key, at = _JSON.raw_decode(text, at)
            at = _skip(text, _skip(text, at) + 1)
        yield key, at
        _, at = _JSON.raw_decode(text, at)
        at = _skip(text, at)
        at = _skip(text, at + 1) if text[at] == "," else at
