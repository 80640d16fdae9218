"""Fields: the columns of a table, each with what it shows of a row; `section` makes the table of them and the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from tcprobe import formatting as f
from tcprobe.report.document import Cell, ColumnHead, Section

if TYPE_CHECKING:
    from tcprobe.schema.columns import Value

Get: TypeAlias = str | int | Callable[[Any], Any]
"""A column of a row that is a mapping or a tuple, or what gives the value of a row of any kind."""


class Field(Struct, frozen=True):
    """One column of a table."""

    head: ColumnHead
    show: Callable[[Any], Cell | str]  # makes the cell of a row
    usual: str = f.NA  # what a cell says where there is nothing to say


def cell_of(
    text: str,
    show: Callable[[Any], Cell | str],
    rank: int = 0,
    *,
    right: bool = False,
    least: int = 0,
    wraps: bool = False,
    path: bool = False,
) -> Field:
    """Return a field whose cells `show` makes; the rest is of its heading (`ColumnHead`)."""
    return Field(ColumnHead(text, right, rank, least, wraps, path), show)


def field_of(
    text: str, value: Get, rank: int = 0, show: Callable[[Any], str] = f.any_text, unit: str = "", **head: Any
) -> Field:
    """Return a field of values as `show` words them."""
    get = value if callable(value) else itemgetter(value)

    def cell(row: Any) -> Cell:
        found = get(row)
        return Cell(show(found), found, unit)

    made = cell_of(text, cell, rank, **head)
    return Field(replace(made.head, column=value), made.show) if isinstance(value, str) else made


def number_of(text: str, value: Get, rank: int = 0, unit: str = "") -> Field:
    """Return a field of numbers in a unit, by default that in which the column's name ends; of none they are counts."""
    unit = unit or (unit_of(value) if isinstance(value, str) else "")
    return field_of(text, value, rank, f.FORMATTERS.get(unit, f.count), unit, right=True)


def unit_of(column: str) -> str:
    """Return the unit that a name ends in (``sum_ns``); empty for none."""
    unit = column.rpartition("_")[2]
    return unit if unit in f.FORMATTERS else ""


time_of = partial(number_of, unit="ns")
share_of = partial(number_of, unit="pct")
name_of = partial(field_of, least=24)
sentence_of = partial(field_of, wraps=True)


def source_of(rank: int = 0, value: Get = "source") -> Field:
    """Return the field of a line of the user's code."""
    return field_of("source", value, rank, _relative, least=20, path=True)


def _relative(value: Value) -> str:
    return f.NA if value in (None, "") else f.source_line(str(value))


def section(
    title: str,
    fields: Iterable[Field],
    rows: Sequence[Any],
    notes: Iterable[str] = (),
    top: int | None = None,
    drop_idle: bool = False,
) -> Section | None:
    """Return the table of some rows; None where there are no rows and nothing is noted.

    Args:
        title: text above it.
        fields: its columns.
        rows: what the fields take.
        notes: text below it.
        top: number of rows to show; None for all.
        drop_idle: leave out a column that says nothing of any row.
    """
    shown = rows[:top]
    notes = (*more(len(rows) - len(shown)), *notes)
    if not rows and not notes:
        return None
    columns = [(field.head, [field.show(row) for row in shown], {"", f.NA, field.usual}) for field in fields]
    kept = [(head, cells) for head, cells, idle in columns if not (drop_idle and idle.issuperset(map(str, cells)))]
    cells = tuple(zip(*(cells for _, cells in kept), strict=True))
    return Section(title, tuple(head for head, _ in kept), cells, notes)


def more(left: int) -> tuple[str, ...]:
    """Return the note on rows that are not shown."""
    return (f"({left:,} more; --top 0 shows all)",) if left > 0 else ()
