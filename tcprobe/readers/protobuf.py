"""The wire format of protobuf, read without a schema compiler: spans first, values when they are needed."""

from __future__ import annotations

from collections.abc import Iterator
from mmap import mmap
from typing import TypeAlias

Buffer: TypeAlias = bytes | bytearray | mmap
Span: TypeAlias = tuple[int, int]

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


class DamagedError(ValueError):
    """Bytes that are no message of the expected kind; the message says what and at which byte."""


def varint(data: Buffer, at: int, end: int) -> tuple[int, int]:
    """Return the unsigned varint at `at` and the position after it.

    Raises:
        DamagedError: it runs past `end` or over ten bytes.
    """
    value = shift = 0
    while at < end and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at
        shift += 7
    raise DamagedError(f"number cut off at byte {at}")


def signed(value: int) -> int:
    """Return the int64 that an unsigned 64-bit `value` stands for."""
    return value - (1 << 64) if value >> 63 else value


def fields(data: Buffer, span: Span) -> Iterator[tuple[int, int, int, int]]:
    """Yield (field number, wire type, first, last) of each field of the message in `span`.

    For a varint `first` is the value and `last` its end; otherwise `first`:`last` is the payload.

    Raises:
        DamagedError: a field runs past the message or has a wire type that protobuf 3 does not write.
    """
    at, end = span
    while at < end:
        tag, at = varint(data, at, end)
        number, wire = tag >> 3, tag & 7
        if wire == VARINT:
            value, at = varint(data, at, end)
            yield number, VARINT, value, at
            continue
        if wire == BYTES:
            size, at = varint(data, at, end)
        elif wire in (FIXED64, FIXED32):
            size = 8 if wire == FIXED64 else 4
        else:
            raise DamagedError(f"wire type {wire} at byte {at}")
        if size > end - at:
            raise DamagedError(f"field of {size} bytes at byte {at} runs past its message")
        yield number, wire, at, at + size
        at += size


def text(data: Buffer, span: Span) -> str:
    """Return the string in `span`; bytes that are no UTF-8 are replaced."""
    return data[span[0] : span[1]].decode("utf-8", "replace")


def entries(data: Buffer, spans: list[Span]) -> Iterator[tuple[int, Span]]:
    """Yield (key, span of the value) of each entry of a map<int64, message>."""
    for span in spans:
        key, value = 0, (0, 0)
        for number, wire, first, last in fields(data, span):
            if number == 1 and wire == VARINT:
                key = signed(first)
            elif number == 2 and wire == BYTES:
                value = (first, last)
        yield key, value
