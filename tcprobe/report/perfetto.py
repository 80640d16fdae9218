"""Renderer: a run's timeline as a trace for ui.perfetto.dev, written lane by lane.

Every slice is a packet that begins it and one that ends it. Slices of one thing differ in their times alone: packets
are made once for each thing, joined, and numpy fills the times in. Strings stand once, at the beginning; events have
their numbers.

Source: Perfetto's protos/perfetto/trace/trace_packet.proto, interned_data.proto, track_event/*.proto; a varint may
be longer than it needs to be, as Perfetto's own writer has them for lengths that it does not know yet.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, Final, TextIO

import numpy as np
from numpy.typing import NDArray

from tcprobe.errors import UsageError
from tcprobe.report import RenderSpec
from tcprobe.report.document import Document
from tcprobe.report.run.timeline import class_words, group_words, lane_words, slice_words
from tcprobe.schema.columns import IntArray
from tcprobe.schema.profile import Profile
from tcprobe.schema.timeline import Lane, LaneKind, Thing, Timeline
from tcprobe.visible import UNENCODABLE

BLOCK: Final = 1 << 16  # events that are made at once
MOST_STRINGS: Final = 4096  # in one packet
BEGIN, END = 1, 2  # TrackEvent.type
CLEARED, NEEDED = 1, 2  # TracePacket.sequence_flags: numbers of strings begin here; are used here
EXPLICIT: Final = 3  # TrackDescriptor.child_ordering: by sibling_order_rank
TIMELESS: Final = "no timeline: this source does not say when anything ran, and a trace holds nothing else"
RANKS: Final = "no timeline: a trace is of one process, and this report is of the ranks of a job"


def render(document: Document, spec: RenderSpec, out: TextIO) -> None:  # noqa: ARG001 - a renderer's signature
    """Write the trace.

    Raises:
        UsageError: nothing of the profile has a time, tables were asked for, or it would go to a terminal.
    """
    profile: Profile | None = getattr(document, "profile", None)
    timeline = None if profile is None else profile.timeline
    if timeline is None:
        ranks = profile is not None and len(profile.require("ranks")) > 0
        raise UsageError(
            *((RANKS, "name one rank's file or folder") if ranks else (TIMELESS, "--format csv has tables"))
        )
    if document.spec.by:  # type: ignore[attr-defined]
        raise UsageError("--by chooses tables, and a trace holds none", "leave it out")
    if out.isatty():
        raise UsageError("a trace is no text", "name a file: -o trace.pftrace")
    _Trace(timeline).write(out.buffer)


def varint(value: int, width: int = 0) -> bytes:
    """Return an unsigned number, in at least `width` bytes."""
    made = bytearray()
    while value > 0x7F or len(made) < width - 1:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*made, value])


def number(field: int, value: int) -> bytes:
    """Return a field that is a number, modulo 2**64."""
    return varint(field << 3) + varint(value & 0xFFFF_FFFF_FFFF_FFFF)


def message(field: int, *parts: bytes) -> bytes:
    """Return a field that is a message or text."""
    body = b"".join(parts)
    return varint(field << 3 | 2) + varint(len(body)) + body


def text(field: int, value: str) -> bytes:
    """Return a field that is text; what no encoding has is escaped."""
    return message(field, value.encode("utf-8", UNENCODABLE))


class _Strings:
    """Strings of one kind, each with a number from 1."""

    def __init__(self, field: int, of: int) -> None:
        self.field, self.of, self.numbers = field, of, dict[str, int]()

    def __getitem__(self, value: str) -> int:
        return self.numbers.setdefault(value, len(self.numbers) + 1)

    def entries(self) -> Iterator[bytes]:
        """Yield each, as a field of InternedData."""
        for value, place in self.numbers.items():
            yield message(self.field, number(1, place), text(2, value))


class _Trace:
    """A timeline on its way to a file."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self.lanes = [lane for lane in timeline.lanes if len(lane)]
        self.categories, self.names = _Strings(1, 2), _Strings(2, 2)
        self.keys, self.texts = _Strings(3, 2), _Strings(29, 2)
        low = min((int(lane.start_ns[0]) for lane in self.lanes), default=0)
        high = max((int((lane.start_ns + lane.duration_ns).max()) for lane in self.lanes), default=0)
        self.shift = max(-low, 0)  # times of a trace are unsigned
        self.width = len(varint(high + self.shift))
        self.notes = dict[tuple[str, Any], bytes]()  # each argument of an event with its value
        self.bodies = list[dict[int, bytes]]()  # of each lane, of each of its things, what begins it

    def write(self, out: BinaryIO) -> None:
        """Write tracks, then strings, then slices."""
        out.writelines(self._tracks())
        begun = dict[tuple[LaneKind, int], dict[int, bytes]]()  # lanes of one kind share things
        for lane in self.lanes:
            made = begun.setdefault((lane.kind, id(lane.things)), {})
            used = np.flatnonzero(np.bincount(lane.thing)).tolist()
            made.update({place: self._thing(lane.kind, lane.things[place]) for place in used if place not in made})
            self.bodies.append({place: made[place] for place in used})
        out.writelines(self._strings())
        for track, lane in enumerate(self.lanes, 1):
            self._slices(out, track, lane)

    def _tracks(self) -> Iterator[bytes]:
        """Yield a track for each lane, numbered from 1, and one around those of each group."""
        groups = dict[str, int]()
        for track, lane in enumerate(self.lanes, 1):
            group = group_words(lane, self.timeline)
            if group not in groups:
                groups[group] = len(self.lanes) + len(groups) + 1
                shown = number(1, groups[group]), text(2, group), number(11, EXPLICIT)
                yield self._packet(message(60, *shown, number(12, len(groups))))
            whose = number(1, track), text(2, lane_words(lane)), number(5, groups[group]), number(12, track)
            yield self._packet(message(60, *whose))

    def _packet(self, *parts: bytes) -> bytes:
        return message(1, number(10, 1), *parts)

    def _strings(self) -> Iterator[bytes]:
        """Yield all strings, in packets of some; the first tells that numbers begin here."""
        flags = CLEARED | NEEDED
        entries = [e for kind in (self.categories, self.names, self.keys, self.texts) for e in kind.entries()]
        for first in range(0, max(len(entries), 1), MOST_STRINGS):
            yield self._packet(number(13, flags), message(12, *entries[first : first + MOST_STRINGS]))
            flags = NEEDED

    def _thing(self, kind: LaneKind, thing: Thing) -> bytes:
        """Return what an event says of a thing: categories, name, arguments."""
        told = class_words(kind, thing)
        categories = [c for c in (told, thing.kind) if c] or [kind]
        facts: list[tuple[str, Any]] = [("class", told), ("kind", thing.kind)]
        if kind == "wait":
            facts.append(("evidence", thing.name))
        parts = [number(3, self.categories[c]) for c in categories]
        parts.append(number(10, self.names[slice_words(kind, thing)]))
        for key, value in (*facts, *thing.more):
            if value is not None:
                parts.append(self.notes.get((key, value)) or self._note(key, value))
        return b"".join(parts)

    def _note(self, key: str, value: str | float) -> bytes:
        """Return an argument of an event; those that are text have numbers."""
        if isinstance(value, str):
            held = number(17, self.texts[value])
        else:
            held = number(4, value) if isinstance(value, int) else varint(5 << 3 | 1) + np.float64(value).tobytes()
        made = self.notes[key, value] = message(4, number(1, self.keys[key]), held)
        return made

    def _event(self, track: int, kind: int, body: bytes) -> bytes:
        """Return a packet whose time is to be filled in: it begins at byte 1 + 3 + 1."""
        event = message(11, number(9, kind), number(11, track), body)
        rest = number(10, 1) + number(13, NEEDED) + event
        size = 1 + self.width + len(rest)
        return b"\x0a" + varint(size, 3) + b"\x40" + bytes(self.width) + rest

    def _slices(self, out: BinaryIO, track: int, lane: Lane) -> None:
        """Write the events of a lane, in the order in which its slices hold one another."""
        packets = [b""] * (len(lane.things) + 1)
        packets[0] = self._event(track, END, b"")
        for place, body in self.bodies[track - 1].items():
            packets[place + 1] = self._event(track, BEGIN, body)
        sizes = np.array([len(packet) for packet in packets])
        event, time = events_of(lane)
        time += self.shift
        for first in range(0, len(event), BLOCK):
            mine = event[first : first + BLOCK]
            data = bytearray().join([packets[place] for place in mine.tolist()])
            places = np.cumsum(sizes[mine]) - sizes[mine] + 5
            self._times(np.frombuffer(data, np.uint8), places, time[first : first + BLOCK])
            out.write(data)

    def _times(self, data: NDArray[np.uint8], places: IntArray, time: IntArray) -> None:
        """Fill times into packets."""
        for byte in range(self.width):
            more = 0x80 if byte < self.width - 1 else 0
            data[places + byte] = (time >> (7 * byte) & 0x7F) | more


def events_of(lane: Lane) -> tuple[IntArray, IntArray]:
    """Return the events of a lane in their order, 0 for an end, else 1 + the place of what begins; and their times.

    A slice begins after what came before it has begun, and all of that has ended but what is around it.
    """
    count = len(lane)
    place = 2 * np.arange(count) - lane.depth
    event, time = np.zeros(2 * count, np.int64), np.empty(2 * count, np.int64)
    ends = np.ones(2 * count, np.bool_)
    ends[place] = False
    event[place], time[place] = lane.thing + 1, lane.start_ns
    time[ends] = (lane.start_ns + lane.duration_ns)[_closing(lane.depth)]
    return event, time


def _closing(depth: Sequence[int] | NDArray[np.int32]) -> IntArray:
    """Return slices in the order in which they end: each after those within it, which come next and lie deeper."""
    if not np.any(depth):
        return np.arange(len(depth))
    order, lasting = list[int](), list[int]()
    for row, level in enumerate(np.asarray(depth).tolist()):
        while len(lasting) > level:
            order.append(lasting.pop())
        lasting.append(row)
    return np.array([*order, *reversed(lasting)])
