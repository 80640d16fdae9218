"""Read JSON that someone else wrote: it may be missing or damaged, nested beyond any sense, or hold absurd numbers."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias, TypeVar

from msgspec import Meta, Struct, convert
from msgspec.structs import fields

from tcprobe.errors import InputError
from tcprobe.foreign import read

MOST_BYTES: Final = 256 << 20  # the graph of a large model takes tens of MB, every other file of ours far less
DEEPEST: Final = 100  # levels; ours have 8, and what prints them uses some frames of Python's 1,000 for each
LARGEST: Final = 2**63 - 1  # what a column of whole numbers holds; longer ones, Python refuses to print
DIGITS: Final = len(str(LARGEST))
_FIGURES: Final = str.maketrans("123456789E", "000000000e")
_ODD: Final = ("0" * (DIGITS - 1), "0e000", "0e+000")
"""What numbers beyond 64 bits or beyond what is finite hold, read so: 18 digits in a row, or an exponent of three."""

Text: TypeAlias = Annotated[str, Meta(min_length=1)]
Count: TypeAlias = Annotated[int, Meta(ge=0, lt=2**53)]  # what a float64 holds exactly
Number: TypeAlias = Annotated[int, Meta(ge=-(2**53), le=2**53)] | Annotated[float, Meta(ge=-(2**53), le=2**53)]
_Record = TypeVar("_Record", bound=Struct)


def parse(text: str, odd: Callable[[str], Any] = lambda _: None) -> Any:
    """Return what JSON text holds.

    Args:
        text: the JSON.
        odd: what becomes of a number that is not finite, or a whole one beyond 64 bits; it is unknown by default.

    Raises:
        ValueError: it is no JSON, or nested deeper than `DEEPEST` levels.
    """
    checked: dict[str, Any] = {
        "parse_int": lambda digits: odd(digits) if (number := _whole(digits)) is None else number,
        "parse_float": lambda digits: number if math.isfinite(number := float(digits)) else odd(digits),
    }
    try:
        hooks = checked if _may_be_odd(text) else {}  # they cost more than all else
        found = json.loads(text.removeprefix("\ufeff"), parse_constant=odd, **hooks)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    if _is_deep(found):
        raise ValueError(_TOO_DEEP)
    return found


def read_object(path: Path, within: Path | None = None) -> dict[str, Any]:
    """Return the JSON object in a file; empty where there is none, or the file is missing or damaged.

    `within` is a folder that a link must not lead out of.
    """
    try:
        found = parse(read(path, MOST_BYTES, within).decode())
    except (InputError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def record(kind: type[_Record], given: Any) -> _Record | None:
    """Return a JSON object as a record, each value that is not of its field's type as if it were missing.

    None of what is no object, or lacks a field that has no default.
    """
    if not isinstance(given, dict):
        return None
    try:
        return convert(given, kind)
    except ValueError:  # a wrong value, or half a character
        pass
    values = {}
    for name, key, type_ in _fields(kind):
        try:
            values[name] = convert(given[key], type_)
        except (KeyError, ValueError):
            continue
    try:
        return kind(**values)
    except TypeError:
        return None


def records(kind: type[_Record], given: Any) -> list[_Record]:
    """Return the records in a JSON list, without what is none."""
    return [one for value in given if (one := record(kind, value))] if isinstance(given, list) else []


@cache
def _fields(kind: type[Struct]) -> list[tuple[str, str, Any]]:
    return [(one.name, one.encode_name, one.type) for one in fields(kind)]


def whole(text: str) -> int | None:
    """Return the whole number from 0 that text holds as digits 0 to 9; None of any other text, and beyond 64 bits."""
    return _whole(text) if text.isascii() and text.isdigit() else None


def _may_be_odd(text: str) -> bool:
    figures = text.translate(_FIGURES) if text.isascii() else ""  # any other text takes 50 times as long
    return not figures or any(sign in figures for sign in _ODD)


_TOO_DEEP: Final = f"it is nested deeper than {DEEPEST} levels"


def _whole(text: str) -> int | None:
    if len(text) < DIGITS:
        return int(text)
    return number if len(text) <= DIGITS + 1 and abs(number := int(text)) <= LARGEST else None


def _is_deep(found: Any) -> bool:
    level = [found]
    for _ in range(DEEPEST):
        level = [
            inner
            for value in level
            for inner in (value.values() if isinstance(value, dict) else value if isinstance(value, list) else ())
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True
