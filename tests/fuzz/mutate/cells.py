"""Change a CSV: its cells, rows, columns, header, quotes and line ends."""

from __future__ import annotations

import csv
import io
from typing import Final

from tests.fuzz.mutate.chance import Chance, encoded

Rows = list[list[str]]
MOST_CELLS: Final = 100_000
MOST_CHARACTERS: Final = 10_000_000


def mutated(content: bytes, chance: Chance) -> bytes:
    """Return another CSV.

    Raises:
        MemoryError: it would be larger than any that is tried.
    """
    text = content.decode("utf-8", "replace")
    try:
        rows = list(csv.reader(io.StringIO(text)))
    except csv.Error:
        rows = [line.split(",") for line in text.splitlines()]
    if not rows:
        return encoded(chance.text())
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        rows = _changed(rows, chance) or [[chance.text()]]
        if _is_large(rows):
            raise MemoryError
    return encoded(_text(rows, chance))


def _is_large(rows: Rows) -> bool:
    """Say whether repeated repeats have made more than anybody tries; writing that took minutes."""
    return sum(map(len, rows)) > MOST_CELLS or sum(len(cell) for row in rows for cell in row) > MOST_CHARACTERS


def _changed(rows: Rows, chance: Chance) -> Rows:
    at = chance.randrange(len(rows))
    kind = chance.random()
    if kind < 0.55:
        return _other_cell(rows, at, chance)
    if kind < 0.65:
        return [*rows[:at], *rows[at + 1 :]]
    if kind < 0.75:
        return [*rows[:at], *([rows[at]] * min(chance.times(), 300)), *rows[at:]]
    if kind < 0.8:
        other = chance.randrange(len(rows))
        rows[at], rows[other] = rows[other], rows[at]
        return rows
    if kind < 0.9:
        return _other_column(rows, chance)
    if kind < 0.95:
        rows[at] = rows[at] * min(chance.times(), 3000)
        return rows
    return [*rows[:at], [chance.text() for _ in range(chance.randint(0, 12))], *rows[at:]]


def _other_cell(rows: Rows, at: int, chance: Chance) -> Rows:
    if not rows[at]:
        rows[at] = [chance.text()]
        return rows
    column = chance.randrange(len(rows[at]))
    cell = str(chance.number()) if chance.random() < 0.3 else chance.near(rows[at][column])
    rows[at] = [*rows[at][:column], cell, *rows[at][column + 1 :]]
    return rows


def _other_column(rows: Rows, chance: Chance) -> Rows:
    """Drop, double, rename or fill a column."""
    column, kind = chance.randrange(max(1, max(map(len, rows)))), chance.randrange(3)
    if kind == 0:
        return [row[:column] + row[column + 1 :] for row in rows]
    if kind == 1:
        return [row[: column + 1] + row[column:] for row in rows]
    text = str(chance.number()) if chance.random() < 0.5 else chance.text()[:2000]
    keep = chance.random() < 0.7
    return [row if keep and n < 2 else [*row[:column], text, *row[column + 1 :]] for n, row in enumerate(rows)]


def _text(rows: Rows, chance: Chance) -> str:
    end = chance.choice(("\n", "\n", "\n", "\r\n", "\r"))
    if chance.random() < 0.15:
        return end.join(chance.choice((",", ",", ";", "\t")).join(row) for row in rows)
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator=end, escapechar="\\").writerows(rows)
    text = out.getvalue()
    return text if chance.random() < 0.9 else text[: chance.randrange(len(text) + 1)]
