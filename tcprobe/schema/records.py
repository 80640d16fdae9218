"""Records as dictionaries, for JSON, and a value of a row as text."""

from __future__ import annotations

from typing import Any

from msgspec import Struct


def as_dict(record: Struct) -> dict[str, Any]:
    """Return a record as field -> value; records in it, also in tuples, lists and dictionaries, likewise."""
    return {name: plain(getattr(record, name)) for name in record.__struct_fields__}


def plain(value: Any) -> Any:
    """Return a value with the records in it as dictionaries."""
    match value:
        case Struct():
            return as_dict(value)
        case list() | tuple():
            return type(value)(map(plain, value))
        case dict():
            return {key: plain(one) for key, one in value.items()}
        case _:
            return value


def text_of(value: object) -> str | None:
    """Return a value as text; None where it is NA."""
    return None if value is None else str(value)
