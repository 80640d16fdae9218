"""`as_dict`: a record and the records in it as dictionaries, for JSON."""

from __future__ import annotations

from typing import Any

from msgspec import Struct


def as_dict(record: Struct) -> dict[str, Any]:
    """Return a record as field -> value; records in it, also in tuples, lists and dictionaries, likewise."""
    return {name: _plain(getattr(record, name)) for name in record.__struct_fields__}


def _plain(value: Any) -> Any:
    match value:
        case Struct():
            return as_dict(value)
        case list() | tuple():
            return type(value)(map(_plain, value))
        case dict():
            return {key: _plain(one) for key, one in value.items()}
        case _:
            return value
