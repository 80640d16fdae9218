"""`CompareSpec`: what the user asked to see of a comparison, and what the runs are called in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

ROWS_FOR_PEOPLE: Final = 10
ComparedBy = Literal["figure", "layer", "op", "kernel", "renamed", "loss", "setting"]
TABLE_OF: Final[dict[str, str]] = {
    "figure": "figures",
    "layer": "layers",
    "op": "ops",
    "kernel": "kernels",
    "renamed": "renamed",
    "loss": "losses",
    "setting": "settings",
}
"""What ``--by`` takes, and the tables that it stands for."""


@dataclass(frozen=True, slots=True)
class CompareSpec:
    """What the user asked to see of a comparison.

    Attributes:
        top: rows per table; 0 is all, None is 10 for people and all for programs. Figures are always all.
        by: tables to show, of `TABLE_OF`; empty: all.
    """

    top: int | None = None
    by: tuple[str, ...] = ()

    @property
    def rows_for_people(self) -> int | None:
        """Rows per table on a screen or page; None for all."""
        return ROWS_FOR_PEOPLE if self.top is None else self.top or None

    @property
    def rows_for_programs(self) -> int | None:
        """Rows per table in a file for programs; None for all."""
        return self.top or None


def letters(count: int) -> tuple[str, ...]:
    """Return what so many runs are called in tables and sentences: A, B, ..., Z, AA, AB, ..."""
    return tuple(_letter(number) for number in range(count))


def _letter(number: int) -> str:
    more, last = divmod(number, 26)
    return (_letter(more - 1) if more else "") + chr(ord("A") + last)


def starting(sentence: str) -> str:
    """Return a sentence with its first letter as a capital."""
    return sentence[:1].upper() + sentence[1:]


def joined(names: Sequence[str]) -> str:
    """Return names as a list in a sentence: ``A, B and C``."""
    return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part) if names else ""
