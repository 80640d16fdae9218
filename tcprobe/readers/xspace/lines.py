"""Find the events of an XLine: a chain of length-prefixed messages, walked at many places at once.

The chain has no index, so its links are found one after the other. To do that in array code, walkers start at
places that look like the beginning of an event and walk in lock-step. What they find counts only where each walker
ends exactly where the next one began, so a wrong guess costs time and never a wrong event.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tcprobe.progress import advance
from tcprobe.readers.arrays import Bytes, Ints
from tcprobe.readers.protobuf import BYTES, VARINT, Buffer, DamagedError, Span, varint

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
