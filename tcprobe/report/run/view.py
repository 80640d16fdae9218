"""`View`: how a report shows one table of the contract."""

from __future__ import annotations

from msgspec import Struct

from tcprobe.report.fields import Field


class View(Struct, frozen=True):
    """How a report shows one table of the contract."""

    table: str  # its name
    title: str  # its heading; the plural names the rows (``kernels``)
    fields: tuple[Field, ...]
    # columns to sort by, largest first; each breaks ties and NA of the one before; empty keeps the order
    order: tuple[str, ...] = ("sum_ns",)
    # a column, and values of it whose rows are shown however few rows are
    kept: tuple[str, tuple[str, ...]] | None = None
