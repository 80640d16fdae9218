"""`Place`: where something stands in a source file of the user."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A range of text in a source file.

    Attributes:
        file: absolute path.
        line: first line, from 1.
        column: first column, in characters from 1; 1 if only the line is known.
        end_line: last line; None if only the start is known.
        end_column: column after the last character, from 1; None if only the start is known.
    """

    file: str
    line: int
    column: int = 1
    end_line: int | None = None
    end_column: int | None = None

    @classmethod
    def parse(cls, text: str | None) -> Place | None:
        """Return the place written as ``file:line``, as the probe writes it; None if the text has another form."""
        file, colon, line = (text or "").rpartition(":")
        return cls(file, int(line)) if colon and file and line.isdigit() and int(line) else None
