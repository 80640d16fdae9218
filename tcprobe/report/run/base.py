"""`View`: how a report shows one table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tcprobe.report import formatting as f
from tcprobe.report.blocks import Cell, ColumnHead
from tcprobe.report.formatting import NA
from tcprobe.schema.columns import Row, Value


@dataclass(frozen=True, slots=True)
class Field:
    """One column of a view: its heading, and the function that makes a row's cell.

    Attributes:
        without_step: its heading where no step is known, if it is another.
        of_capture: its heading where the capture stands for a step, if it is another.
        usual: what it says where there is nothing to say; it is not shown where it says so in every row.
    """

    head: ColumnHead
    show: Callable[[Row], Cell]
    without_step: str = ""
    of_capture: str = ""
    usual: str = NA


@dataclass(frozen=True, slots=True)
class View:
    """One table as a report shows it.

    Attributes:
        by: its name after ``--by``.
        table: the table of the contract that it shows.
        title: its heading; the plural names the rows (``kernels``).
        fields: its columns in order; a column that is NA in every row is not shown.
        order: columns to sort by, largest first; each breaks ties and NA of the one before; empty keeps the order
        without_step: its title where no step is known, if it is another.
        kept: a column, and values of it whose rows are shown however few rows are.
    """

    by: str
    table: str
    title: str
    fields: tuple[Field, ...]
    order: tuple[str, ...] = ("sum_ns",)
    without_step: str = ""
    kept: tuple[str, tuple[str, ...]] | None = None


def field_of(head: ColumnHead, column: str, show: Callable[[Value], str] = f.any_text, unit: str = "") -> Field:
    """Return a field with a column's values, as `show` words them."""
    return Field(head, lambda row: Cell(show(row[column]), row[column], unit))


def name_of(text: str, column: str, rank: int = 0, least: int = 24) -> Field:
    """Return a field of names, which a narrow terminal shortens to `least` characters."""
    return field_of(ColumnHead(text, rank=rank, least=least), column)


def sentence_of(text: str, column: str, rank: int = 0) -> Field:
    """Return a field of sentences, which a narrow terminal wraps."""
    return field_of(ColumnHead(text, rank=rank, wraps=True), column)


def word_of(text: str, column: str, rank: int = 0) -> Field:
    """Return a field of words."""
    return field_of(ColumnHead(text, rank=rank), column)


def number_of(text: str, column: str, unit: str, rank: int = 0) -> Field:
    """Return a field of numbers in a unit."""
    return field_of(ColumnHead(text, right=True, rank=rank), column, f.FORMATTERS[unit], unit)


def time_of(text: str, column: str, rank: int = 0) -> Field:
    """Return a field of times."""
    return number_of(text, column, "ns", rank)


def share_of(text: str, column: str, rank: int = 0) -> Field:
    """Return a field of percentages."""
    return number_of(text, column, "pct", rank)


def count_of(text: str, column: str, rank: int = 0) -> Field:
    """Return a field of counts."""
    return field_of(ColumnHead(text, right=True, rank=rank), column, f.count)
