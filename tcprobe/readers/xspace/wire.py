"""Read the messages of an XSpace: planes and lines as spans, names by id.

Messages and field numbers follow tsl/profiler/protobuf/xplane.proto (openxla/xla, 2026).
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from msgspec import Struct, field

from tcprobe.readers.protobuf import BYTES, FIXED64, VARINT, Buffer, DamagedError, Span, entries, fields, signed, text

DOUBLE, UINT, INT, STRING, BLOB, REF = 2, 3, 4, 5, 6, 7  # field numbers of XStat.value
MOST_NS: Final = 1 << 61  # the year 2043 since the epoch; sums with it stay within int64


class Plane(Struct):
    """One XPlane: its name, and where its lines, metadata and stats lie in the file."""

    name: str = ""
    lines: list[Span] = field(default_factory=list)
    event_metadata: list[Span] = field(default_factory=list)
    stat_metadata: list[Span] = field(default_factory=list)
    stats: list[Span] = field(default_factory=list)


class Space(Struct):
    """One XSpace: planes as spans, and what the profiler said about its own run."""

    planes: list[Plane] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    hosts: list[str] = field(default_factory=list)


class Line(Struct):
    """Head of one XLine: `events` begins at the first event or, without events, at the end."""

    id: int = 0
    name: str = ""
    timestamp_ns: int = 0
    events: Span = (0, 0)


def scan_space(data: Buffer, size: int) -> Space:
    """Return the planes of a file of `size` bytes, without looking at events.

    Raises:
        DamagedError: the bytes are no XSpace.
    """
    space = Space()
    said = {2: space.errors, 3: space.warnings, 4: space.hosts}
    for number, wire, first, last in fields(data, (0, size)):
        if number == 1 and wire == BYTES:
            space.planes.append(_scan_plane(data, (first, last)))
        elif number in said and wire == BYTES:
            said[number].append(text(data, (first, last)))
    return space


def _scan_plane(data: Buffer, span: Span) -> Plane:
    plane = Plane()
    parts = {3: plane.lines, 4: plane.event_metadata, 5: plane.stat_metadata, 6: plane.stats}
    for number, wire, first, last in fields(data, span):
        if wire != BYTES:
            continue
        if number == 2:
            plane.name = text(data, (first, last))
        elif number in parts:
            parts[number].append((first, last))
    return plane


def line_head(data: Buffer, span: Span) -> Line:
    """Return the head of a line.

    The fields before the events give all of it, as every writer of XSpace puts them there; only a line
    that has its name elsewhere is scanned to its end.

    Raises:
        DamagedError: it is no line, or begins at an impossible time.
    """
    line = _head(data, span)
    if abs(line.timestamp_ns) > MOST_NS:
        raise DamagedError(f"line {line.name} begins at an impossible time")
    return line


def _head(data: Buffer, span: Span) -> Line:
    line = Line(events=(span[1], span[1]))
    for number, wire, first, last in fields(data, span):
        if number == 1 and wire == VARINT:
            line.id = signed(first)
        elif number == 2 and wire == BYTES:
            line.name = text(data, (first, last))
        elif number == 3 and wire == VARINT:
            line.timestamp_ns = signed(first)
        elif number == 4 and wire == BYTES and line.events[0] == span[1]:
            line.events = (_tag_before(data, first, span[0]), span[1])
            if line.name:
                return line
    return line


def _tag_before(data: Buffer, payload: int, start: int) -> int:
    """Return where the field of tag 0x22 begins whose payload is at `payload`."""
    at = payload - 2
    while at > start and data[at + 1 : payload] and data[at] >= 0x80:
        at -= 1
    return at


def string_map(data: Buffer, spans: list[Span]) -> dict[int, str]:
    """Return id -> name of a map of XEventMetadata or XStatMetadata."""
    return {key: _name(data, value) for key, value in entries(data, spans)}


def _name(data: Buffer, span: Span) -> str:
    name = ""
    for number, wire, first, last in fields(data, span):
        if number == 2 and wire == BYTES:
            name = text(data, (first, last))
    return name


class Stat(NamedTuple):
    """One XStat."""

    id: int = 0  # of its name
    kind: int = 0  # field number of the value; 0 where it has none
    value: int = 0  # integer, reference, the bits of a double, or where the bytes of a text or blob begin
    size: int = 0  # bytes of a text or blob; 0 otherwise


def read_stat(data: Buffer, span: Span) -> Stat:
    """Return a stat as protobuf reads it."""
    stat = Stat()
    for number, wire, first, last in fields(data, span):
        if number == 1 and wire == VARINT:
            stat = stat._replace(id=signed(first))
        elif number in (UINT, INT, REF) and wire == VARINT:
            stat = Stat(stat.id, number, signed(first))
        elif number in (STRING, BLOB) and wire == BYTES:
            stat = Stat(stat.id, number, first, last - first)
        elif number == DOUBLE and wire == FIXED64:
            stat = Stat(stat.id, number, int.from_bytes(data[first:last], "little", signed=True))
    return stat


def plane_stats(data: Buffer, spans: list[Span], names: dict[int, str]) -> dict[str, str | int | float]:
    """Return the stats of a plane by name, those without a value left out."""
    found: dict[str, str | int | float] = {}
    for stat in (read_stat(data, span) for span in spans):
        value: str | int | float | None = stat.value if stat.kind in (UINT, INT) else None
        if stat.kind == REF:
            value = names.get(stat.value)
        elif stat.kind == STRING:
            value = text(data, (stat.value, stat.value + stat.size))
        elif stat.kind == DOUBLE:
            value = float(np.int64(stat.value).view(np.float64))
        if stat.id in names and value is not None:
            found[names[stat.id]] = value
    return found
