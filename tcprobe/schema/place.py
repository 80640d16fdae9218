"""`Place`: where something stands in a source file or notebook of the user."""

from __future__ import annotations

from msgspec import Struct


class CellLine(Struct, frozen=True, order=True):
    """A line of a cell of a notebook."""

    cell: int  # number of the cell, from 1; those that hold no code count
    line: int  # line within the cell, from 1
    row: int  # line of the notebook's own file on which it stands, from 1


class Place(Struct, frozen=True, order=True):
    """A range of text in a source file."""

    file: str  # absolute path
    line: int  # first line, from 1; in a notebook that of the module that its cells make together
    column: int = 1  # first column, in characters from 1; 1 if only the line is known
    end_line: int | None = None  # last line; None if only the start is known
    end_column: int | None = None  # column after the last character, from 1; None if only the start is known
    in_cell: CellLine | None = None  # where its first line stands in a notebook; None in any other file

    @property
    def position(self) -> str:
        """Return the first line as people are told it: ``12``, or ``cell 3:5`` in a notebook."""
        return str(self.line) if self.in_cell is None else f"cell {self.in_cell.cell}:{self.in_cell.line}"

    @classmethod
    def parse(cls, text: str | None) -> Place | None:
        """Return the place written as ``file:line``, as the probe writes it; None if the text has another form."""
        file, colon, line = (text or "").rpartition(":")
        known = line.isdecimal() and len(line) < 10 and int(line)
        return cls(file, int(line)) if colon and file and known else None
