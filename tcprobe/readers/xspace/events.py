"""Find the events of an XLine and decode them into columns, one field of many events at a time.

A line is a chain of length-prefixed messages, walked at many places at once. Every writer of XSpace puts fields in
ascending order, so the decoder reads `metadata_id, offset, duration, stats` in lock-step over a chunk; an event that is
built otherwise is decoded alone, by the plain reader of `protobuf`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

import numpy as np
from msgspec import Struct
from msgspec.structs import astuple, replace
from numpy.typing import NDArray

from tcprobe.progress import advance
from tcprobe.readers.arrays import Bytes, Ints
from tcprobe.readers.protobuf import BYTES, VARINT, Buffer, DamagedError, Span, fields, signed, varint
from tcprobe.readers.xspace.wire import DOUBLE, read_stat

Bounds: TypeAlias = tuple[Ints, Ints]

EVENT_TAG: Final = 0x22  # field 4, length-delimited
BLOCK: Final = 4 << 20  # bytes walked at once: bounds the memory of one chunk of events
STRIDE: Final = 1536  # bytes between walkers
WINDOW: Final = 96  # bytes in which a walker looks for its first event
FEW: Final = 32  # walkers for which lock-step pays
PLAIN: Final = 64 << 10  # bytes walked one by one where walkers don't pay


def event_bounds(file: Bytes, span: Span) -> Iterator[Bounds]:
    """Yield (starts, ends) of the events in `span`, the part of a line from its first event on, in file order.

    Raises:
        DamagedError: an event runs past the line.
    """
    at, end = span
    plain = end - at <= PLAIN
    while at < end:
        before, stop = at, min(at + (PLAIN if plain else BLOCK), end)
        found, at = _walk_plainly(file.data, at, stop, end) if plain else _walk(file, at, stop, end)
        advance(at - before)
        if len(found[0]):
            yield found
        plain = (not plain and at < stop) or end - at <= PLAIN


def _walk_plainly(data: Buffer, at: int, stop: int, end: int) -> tuple[Bounds, int]:
    """Walk one event after the other from `at` until `stop`; return bounds and the next position."""
    starts: list[int] = []
    ends: list[int] = []
    while at < stop:
        tag, at = varint(data, at, end)
        value, first = varint(data, at, end) if tag & 7 in (VARINT, BYTES) else (0, at)
        at = first + {VARINT: 0, BYTES: value, 1: 8, 5: 4}.get(tag & 7, end)
        if at > end:
            raise DamagedError(f"event at byte {first} runs past its line")
        if tag == EVENT_TAG:
            starts.append(first)
            ends.append(at)
    return (np.array(starts, np.int64), np.array(ends, np.int64)), at


def _walk(file: Bytes, at: int, stop: int, end: int) -> tuple[Bounds, int]:
    """Walk from `at` until `stop` in lock-step; return the bounds that are proved and the next position."""
    seeds = _seeds(file.u8, at, stop)
    limits = np.append(seeds[1:], stop)
    exits = seeds.copy()
    active = np.arange(len(seeds))
    position, limit = seeds, limits
    walked: list[tuple[Ints, Ints, Ints]] = []
    while len(active) >= FEW:
        first, last = _step(file.u8, position, end)
        alive = last >= 0
        walked.append((active[alive], first[alive], last[alive]))
        exits[active[alive]] = last[alive]
        going = alive & (last < limit)
        active, position, limit = active[going], last[going], limit[going]
    walked += _finish(file.data, (active, position, limit), exits, end)
    broken = np.flatnonzero(exits[:-1] != seeds[1:])
    proved = int(broken[0]) if len(broken) else len(seeds) - 1
    if not walked:
        return (seeds[:0], seeds[:0]), at
    owner, starts, ends = (np.concatenate(part) for part in zip(*walked, strict=True))
    # the events of one walker are in order already; sorting small integers by walker is linear
    order = np.argsort(owner.astype(np.int16), kind="stable")
    order = order[: int(np.count_nonzero(owner <= proved))]
    return (starts[order], ends[order]), int(exits[proved])


def _finish(data: Buffer, left: tuple[Ints, Ints, Ints], exits: Ints, end: int) -> Iterator[tuple[Ints, Ints, Ints]]:
    """Walk the last few walkers to their limits one by one, which array code would do at its cost per call.

    A walker that began inside an event may find nonsense: it stops there and is not proved.
    """
    for walker, at, limit in zip(*(part.tolist() for part in left), strict=True):
        try:
            (starts, ends), exits[walker] = _walk_plainly(data, at, limit, end)
        except DamagedError:
            continue
        yield np.full(len(starts), walker), starts, ends


def _step(u8: NDArray[np.uint8], at: Ints, end: int) -> Bounds:
    """Return the payload of the event at each position, its end -1 where there is no plain event."""
    first, last, bad = small_message(u8, at)
    bad |= last > end
    last[bad] = -1
    return first, last


def small_message(u8: NDArray[np.uint8], at: Ints) -> tuple[Ints, Ints, NDArray[np.bool_]]:
    """Return (payload, end, unreadable) of the field at each position, a message under tag 0x22 below 16 KiB."""
    size = u8[at + 1].astype(np.int64)
    first = at + 2
    bad = u8[at] != EVENT_TAG
    long = np.flatnonzero(size >= 0x80)
    if len(long):
        more = u8[at[long] + 2].astype(np.int64)
        size[long] = (size[long] & 0x7F) | (more << 7)
        first[long] += 1
        bad[long] |= more >= 0x80
    return first, first + size, bad


def _seeds(u8: NDArray[np.uint8], at: int, stop: int) -> Ints:
    """Return `at` and, about every `STRIDE` bytes, a place that looks like the beginning of an event.

    An event begins 22 size 08 metadata_id 10; a stat, the other message under tag 22, has no 10 there.
    """
    if stop - at < 2 * STRIDE:
        return np.array([at], np.int64)
    places = np.arange(at + STRIDE, stop - WINDOW, STRIDE, dtype=np.int64)
    near = u8[places[:, None] + np.arange(WINDOW + 8)]
    head = (near[:, :WINDOW] == EVENT_TAG) & (near[:, 2 : WINDOW + 2] == 0x08)
    short = (near[:, 3 : WINDOW + 3] < 0x80) & (near[:, 4 : WINDOW + 4] == 0x10)
    medium = (near[:, 3 : WINDOW + 3] >= 0x80) & (near[:, 4 : WINDOW + 4] < 0x80) & (near[:, 5 : WINDOW + 5] == 0x10)
    looks = head & (short | medium)
    return np.append(np.int64(at), (places + looks.argmax(axis=1))[looks.any(axis=1)])


MOST_PS: Final = 30 * 86_400 * 10**12  # a time past 30 days is damage, and sums of such times would overflow
MOST_STATS: Final = 64  # of an event, read in lock-step; the few events with more are decoded alone
MOST_STAT_ID: Final = 1 << 22

_HIGH: Final = np.uint64(0x8080_8080_8080_8080)
_ONE, _SEVEN, _TOP = np.uint64(1), np.uint64(7), np.uint64(56)
_LENGTHS: Final = np.uint64(0x0102_0304_0506_0708)
_FOLDS: Final = tuple(
    (np.uint64(keep), np.uint64(move), np.uint64(shift))
    for keep, move, shift in (
        (0x007F_007F_007F_007F, 0x7F00_7F00_7F00_7F00, 1),
        (0x0000_3FFF_0000_3FFF, 0x3FFF_0000_3FFF_0000, 2),
        (0x0000_0000_0FFF_FFFF, 0x0FFF_FFFF_0000_0000, 4),
    )
)


DECODE, NO_STATS, LEAVE_OUT = range(3)
Need: TypeAlias = Callable[[Ints], NDArray[np.int8]]


class Stats(Struct, frozen=True):
    """Wanted stats of a chunk, one row each, by column and in file order within it."""

    row: Ints  # event within the chunk
    column: NDArray[np.int8]  # index into the wanted names
    kind: NDArray[np.uint8]  # field number of the value in XStat; 0 where it has none
    value: Ints  # integer, reference, the bits of a double, or where the string begins
    size: Ints  # bytes of a string; 0 otherwise

    def of(self, column: int) -> Stats:
        """Return the stats of one wanted name, as views."""
        first, last = np.searchsorted(self.column, np.array((column, column + 1), np.int8)).tolist()
        return self.take(slice(first, last))

    def by_column(self) -> Stats:
        """Return the stats in order of columns, those of a column in file order."""
        return self.take(np.argsort(self.column, kind="stable"))

    def take(self, index: Ints | slice) -> Stats:
        """Return the stats at `index`."""
        return Stats(*(part[index] for part in astuple(self)))

    def number(self) -> Ints:
        """Return values as integers, doubles cut to whole ones."""
        double = self.kind == DOUBLE
        if not double.any():
            return self.value
        floats = np.nan_to_num(self.value.view(np.float64), nan=0.0, posinf=0.0, neginf=0.0)
        return np.where(double, floats.clip(-(2.0**62), 2.0**62).astype(np.int64), self.value)


class Events(Struct, frozen=True):
    """A chunk of events: equally long columns, and the wanted stats."""

    metadata_id: Ints
    offset_ps: Ints
    duration_ps: Ints
    stats: Stats

    def __len__(self) -> int:
        return len(self.metadata_id)


class Wanted:
    """The stats to decode: ids of a plane's stat_metadata -> column.

    Args:
        names: stat id -> name, of the plane.
        columns: name -> column; several names may share one.
    """

    __slots__ = ("lut",)

    def __init__(self, names: dict[int, str], columns: dict[str, int]) -> None:
        found = {key: columns[name] for key, name in names.items() if name in columns}
        if any(not 0 <= key < MOST_STAT_ID for key in found):
            raise DamagedError(f"stat id {max(found)} out of range")
        self.lut = np.full(max(found, default=0) + 2, -1, np.int8)
        for key, column in found.items():
            self.lut[key] = column

    def column(self, stat_id: Ints) -> NDArray[np.int8]:
        """Return the column of each stat id, -1 where it is not wanted."""
        return self.lut[np.minimum(stat_id, len(self.lut) - 1)]


def varints(file: Bytes, at: Ints) -> tuple[Ints, Ints]:
    """Return the varint at each position and its length in bytes; length 0 marks one of more than eight."""
    word = file.word(at)
    stop = ~word & _HIGH
    low = stop & (~stop + _ONE)  # the top bit of the last byte
    word &= low | (low - _ONE)
    word &= ~_HIGH
    for keep, move, shift in _FOLDS:
        word = (word & keep) | ((word & move) >> shift)
    length = ((low >> _SEVEN) * _LENGTHS) >> _TOP
    return word.view(np.int64), length.view(np.int64)


def decode(file: Bytes, starts: Ints, ends: Ints, wanted: Wanted, need: Need | None = None) -> Events:
    """Return the events at `starts`:`ends`.

    `need` tells by the metadata ids which events are left out (`LEAVE_OUT`) or read without stats (`NO_STATS`).
    No position goes further than `PADDING` past the end of an event, whatever the bytes are.

    Raises:
        DamagedError: an event is no XEvent, or its times are beyond any capture.
    """
    metadata_id, at, odd = _optional(file, starts, ends, 0x08)
    mute = np.zeros(len(at), np.bool_)
    if need is not None:
        how = np.where(odd, DECODE, need(metadata_id))
        keep = np.flatnonzero(how != LEAVE_OUT)
        starts, ends, metadata_id, at = (part[keep] for part in (starts, ends, metadata_id, at))
        odd, mute = odd[keep], how[keep] == NO_STATS
    offset, at, unread = _optional(file, at, ends, 0x10)
    odd |= unread
    duration, at, unread = _optional(file, at, ends, 0x18)
    odd |= unread | (at > ends)
    found, strange = _stats(file, np.where(odd | mute, ends, at), ends, wanted)
    odd[strange] = True
    events = Events(metadata_id, offset, duration, found)
    if odd.any():
        events = _repair(file, events, np.flatnonzero(odd), (starts, ends), wanted)
    if len(events) and max(_largest(events.offset_ps), _largest(events.duration_ps)) > MOST_PS:
        raise DamagedError("event beyond 30 days of the capture")
    if len(events) and int(events.duration_ps.min()) < 0:
        raise DamagedError("event of negative length")
    return replace(events, stats=events.stats.by_column())


def _optional(file: Bytes, at: Ints, ends: Ints, tag: int) -> tuple[Ints, Ints, NDArray[np.bool_]]:
    """Return (value or 0, position after it, unreadable) of a varint field that may be left out."""
    here = (file.u8[at] == tag) & (at < ends)
    value, length = varints(file, at + 1)
    if here.all():
        return value, at + 1 + length, length == 0
    value[~here] = 0
    return value, at + np.where(here, 1 + length, 0), here & (length == 0)


def _largest(values: Ints) -> int:
    return max(int(values.max()), -int(values.min()))


def _stats(file: Bytes, at: Ints, ends: Ints, wanted: Wanted) -> tuple[Stats, Ints]:
    """Walk the stats of all events together; return the wanted ones and the events that need the plain reader."""
    row = np.flatnonzero(at < ends)
    at, ends = at[row], ends[row]
    parts: list[tuple[Ints, NDArray[np.int8], Ints, Ints]] = []
    strange: list[Ints] = []
    for _ in range(MOST_STATS):
        if not len(row):
            break
        first, last, bad = small_message(file.u8, at)
        bad |= last > ends
        last[bad] = ends[bad]
        column, value_at, unread = _stat_column(file, first, last, wanted)
        bad |= unread
        strange.append(row[bad])
        keep = np.flatnonzero((column >= 0) & ~bad)
        parts.append((row[keep], column[keep], value_at[keep], last[keep]))
        going = np.flatnonzero(last < ends)
        row, at, ends = row[going], last[going], ends[going]
    return _values(file, parts, [*strange, row])


def _stat_column(
    file: Bytes, first: Ints, last: Ints, wanted: Wanted
) -> tuple[NDArray[np.int8], Ints, NDArray[np.bool_]]:
    """Return each stat's column, where its value begins, and whether its id must be read plainly."""
    stat_id = file.u8[first + 1].astype(np.int64)
    unread = file.u8[first] != 0x08
    value_at = first + 2
    for byte in (2, 3):
        more = np.flatnonzero(stat_id >= 1 << (7 * (byte - 1)))
        if not len(more):
            break
        next_byte = file.u8[first[more] + byte].astype(np.int64)
        shift = 7 * (byte - 1)
        stat_id[more] = (stat_id[more] & ((1 << shift) - 1)) | (next_byte << shift)
        value_at[more] += 1
    unread |= stat_id >= 1 << 21
    return wanted.column(stat_id), value_at, unread | (value_at > last)


def _values(
    file: Bytes, parts: list[tuple[Ints, NDArray[np.int8], Ints, Ints]], strange: list[Ints]
) -> tuple[Stats, Ints]:
    """Read the values of the wanted stats."""
    if not parts:
        nothing = np.zeros(0, np.int64)
        return Stats(nothing, nothing.astype(np.int8), nothing.astype(np.uint8), nothing, nothing), nothing
    row, column, at, last = (np.concatenate(part) for part in zip(*parts, strict=True))
    tag = file.u8[at]
    number, length = varints(file, at + 1)
    after = at + 1 + length
    kind = (tag >> 3).astype(np.uint8)
    plain = np.isin(tag, (0x18, 0x20, 0x38))
    texts = np.isin(tag, (0x2A, 0x32))
    size = np.where(texts, number, 0)
    doubles = tag == 0x11
    value = np.where(texts, after, number)
    if doubles.any():
        value[doubles] = file.word(at[doubles] + 1).view(np.int64)
        after[doubles] = at[doubles] + 9
    good = (plain | texts | doubles) & (doubles | (length > 0)) & (size <= last - after)
    good &= after + size == last
    strange.append(row[~good])
    return Stats(row, column, kind, value, size).take(np.flatnonzero(good)), np.concatenate(strange)


def _repair(file: Bytes, events: Events, odd: Ints, bounds: tuple[Ints, Ints], wanted: Wanted) -> Events:
    """Decode the `odd` events one by one and put them in place."""
    rows: list[tuple[int, int, int, int, int]] = []
    for index in odd.tolist():
        span = (int(bounds[0][index]), int(bounds[1][index]))
        head, stats = _plain_event(file.data, span, wanted)
        events.metadata_id[index], events.offset_ps[index], events.duration_ps[index] = head
        rows += [(index, *stat) for stat in stats]
    kept = events.stats.take(np.flatnonzero(~np.isin(events.stats.row, odd)))
    more = np.array(rows, np.int64).reshape(-1, 5).T
    merged = (np.append(old, new.astype(old.dtype)) for old, new in zip(astuple(kept), more, strict=True))
    return replace(events, stats=Stats(*merged))


def _plain_event(
    data: Buffer, span: Span, wanted: Wanted
) -> tuple[tuple[int, int, int], list[tuple[int, int, int, int]]]:
    """Return (metadata id, offset, duration) and the wanted stats of one event, as protobuf reads it."""
    head = {1: 0, 2: 0, 3: 0}
    stats = []
    for number, wire, first, last in fields(data, span):
        if wire == VARINT and number in head:
            head[number] = signed(first)
        elif wire == VARINT and number == 5:
            head[2] = 0  # num_occurrences shares a oneof with the offset
        elif wire == BYTES and number == 4:
            stat = read_stat(data, (first, last))
            column = int(wanted.lut[stat.id]) if 0 <= stat.id < len(wanted.lut) else -1
            if column >= 0:
                stats.append((column, *stat[1:]))
    return (head[1], head[2], head[3]), stats
