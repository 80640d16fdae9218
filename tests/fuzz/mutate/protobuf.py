"""Change a protobuf message without its schema: fields, numbers, lengths and the messages inside."""

from __future__ import annotations

import struct
from typing import NamedTuple

from tests.fuzz.mutate.chance import Chance, encoded


class Field(NamedTuple):
    """One field: its number, its wire type, and its value (bytes where a length stands before it)."""

    number: int
    wire: int
    value: int | bytes


def varint(value: int) -> bytes:
    """Return a number as protobuf writes it, negative ones as 64 bits."""
    value &= (1 << 64) - 1
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    made.append(value)
    return bytes(made)


def fields(content: bytes) -> list[Field] | None:
    """Return the fields of a message; None if it is none."""
    found, at = [], 0
    try:
        while at < len(content):
            key, at = _varint(content, at)
            wire = key & 7
            if not 0 < key >> 3 < 4096 or wire not in (0, 1, 2, 5):
                return None
            if wire == 0:
                value: int | bytes
                value, at = _varint(content, at)
            else:
                size, at = _varint(content, at) if wire == 2 else ({1: 8, 5: 4}[wire], at)
                value, at = content[at : at + size], at + size
                if at > len(content):
                    return None
            found.append(Field(key >> 3, wire, value))
    except IndexError:
        return None
    return found


def message(found: list[Field]) -> bytes:
    """Return the bytes of fields."""
    made = bytearray()
    for number, wire, value in found:
        made += varint(number << 3 | wire)
        if isinstance(value, int):
            made += varint(value)
        else:
            made += (varint(len(value)) if wire == 2 else b"") + value
    return bytes(made)


def mutated(content: bytes, chance: Chance) -> bytes:
    """Return another message: something in it, at any depth, is changed."""
    found = fields(content)
    if not found:
        return content + message([Field(chance.randint(1, 12), 2, encoded(chance.text()))])
    at = chance.randrange(len(found))
    value = found[at].value
    if isinstance(value, bytes) and found[at].wire == 2 and len(value) > 1 and chance.random() < 0.8 and _inner(value):
        found[at] = found[at]._replace(value=mutated(value, chance))
        return message(found)
    return _changed(found, at, chance)


def _inner(value: bytes) -> bool:
    """Say whether a value is a message and no text that happens to look like one."""
    return not (value.isascii() and value.decode("ascii").isprintable()) and bool(fields(value))


def _changed(found: list[Field], at: int, chance: Chance) -> bytes:
    field = found[at]
    kind = chance.random()
    if kind < 0.5:
        found[at] = _other_value(field, chance)
    elif kind < 0.6:
        del found[at]
    elif kind < 0.7:
        found[at:at] = [field] * min(chance.times(), 400)
    elif kind < 0.75:
        found.insert(chance.randrange(len(found) + 1), found.pop(at))
    elif kind < 0.8:
        found[at] = field._replace(number=chance.choice((chance.randint(1, 16), 15, 2047, 536870911)))
    elif kind < 0.85:
        found[at] = _other_wire(field, chance)
    elif kind < 0.9:
        other = chance.choice(found)
        found[at] = field._replace(value=other.value, wire=other.wire)
    elif kind < 0.95:
        return _wrong_length(found, at, chance)
    else:
        nested = message([field])
        for _ in range(min(chance.times(), 1000)):
            nested = message([Field(field.number, 2, nested)])
        found[at] = Field(field.number, 2, nested[: 100_000 * chance.scale])
    return message(found)


def _other_value(field: Field, chance: Chance) -> Field:
    if isinstance(field.value, int):
        number = chance.number() if chance.random() < 0.8 else field.value + chance.choice((-1, 1, 1 << 40))
        return field._replace(value=int(number) if abs(number) < 1 << 70 else 1 << 63)
    if field.wire == 1:
        return field._replace(value=struct.pack("<d", float(min(chance.number(), 10**300))))
    if field.wire == 5:
        return field._replace(value=chance.randbytes(4))
    return field._replace(value=encoded(chance.near(field.value.decode("utf-8", "replace"))))


def _other_wire(field: Field, chance: Chance) -> Field:
    wire = chance.choice((0, 1, 2, 5))
    if wire == 0:
        return Field(field.number, 0, chance.getrandbits(64))
    return Field(field.number, wire, encoded(chance.text()) if wire == 2 else chance.randbytes(8 if wire == 1 else 4))


def _wrong_length(found: list[Field], at: int, chance: Chance) -> bytes:
    """Return the message with a field that says another length than it has."""
    field = found[at]
    size = chance.choice((0, 1, 127, 128, 1 << 31, (1 << 63) - 1, (1 << 64) - 1))
    body = field.value if isinstance(field.value, bytes) else varint(field.value)
    return message(found[:at]) + varint(field.number << 3 | 2) + varint(size) + body + message(found[at + 1 :])


def _varint(content: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = content[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
        if shift > 63:
            raise IndexError
