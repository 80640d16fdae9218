"""The lock-step decoder against plain protobuf: on generated lines, on real ones, and on damaged ones."""

from __future__ import annotations

import random
import struct
from typing import Any

import numpy as np
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from tcprobe.readers.arrays import PADDING, Bytes
from tcprobe.readers.protobuf import DamagedError, signed
from tcprobe.readers.xspace.events import BLOCK, MOST_PS, PLAIN, Events, Wanted, decode, event_bounds, varints
from tcprobe.readers.xspace.wire import line_head, scan_space, string_map
from tests.fixtures.xplane.schema import XLine, XSpace
from tests.support import examples, shared

KINDS = {
    "double_value": 2,
    "uint64_value": 3,
    "int64_value": 4,
    "str_value": 5,
    "bytes_value": 6,
    "ref_value": 7,
}
IDS = {1: "one", 2: "two", 150: "far", 20_000: "farther"}
COLUMNS = {"one": 0, "two": 1, "far": 2, "farther": 3}


def held(raw: bytes) -> Bytes:
    return Bytes(bytearray(raw) + bytearray(PADDING))


def decode_line(raw: bytes, wanted: Wanted) -> tuple[Bytes, list[Events]]:
    file = held(raw)
    line = line_head(file.data, (0, file.size))
    return file, [decode(file, starts, ends, wanted) for starts, ends in event_bounds(file, line.events)]


def rows_of(file: Bytes, chunks: list[Events]) -> list[tuple[int, int, int, dict[int, object]]]:
    """Return (metadata id, offset, duration, {column: (kind, value)}) per event."""
    rows = []
    for events in chunks:
        stats: list[dict[int, object]] = [{} for _ in range(len(events))]
        s = events.stats
        for row, column, kind, value, size in zip(
            s.row.tolist(), s.column.tolist(), s.kind.tolist(), s.value.tolist(), s.size.tolist(), strict=True
        ):
            stats[row][column] = (kind, bytes(file.data[value : value + size]) if kind in (5, 6) else value)
        head = zip(events.metadata_id.tolist(), events.offset_ps.tolist(), events.duration_ps.tolist(), strict=True)
        rows += [(m, o, d, found) for (m, o, d), found in zip(head, stats, strict=True)]
    return rows


def value_of(stat: Any) -> tuple[int, object]:
    which = stat.WhichOneof("value")
    if which is None:
        return 0, 0
    value = getattr(stat, which)
    if which == "double_value":
        return 2, struct.unpack("<q", struct.pack("<d", value))[0]
    if which == "str_value":
        return 5, value.encode()
    return KINDS[which], value if which == "bytes_value" else signed(value & (1 << 64) - 1)


def expected(
    line: Any, names: dict[int, str], columns: dict[str, int]
) -> list[tuple[int, int, int, dict[int, object]]]:
    rows = []
    for event in line.events:
        found: dict[int, object] = {}
        for stat in event.stats:
            if names.get(stat.metadata_id) in columns:
                found[columns[names[stat.metadata_id]]] = value_of(stat)
        rows.append((event.metadata_id, event.offset_ps, event.duration_ps, found))
    return rows


numbers = st.one_of(st.integers(0, 300), st.integers(0, 2**56), st.integers(-(2**63), 2**63 - 1))
times = st.one_of(st.integers(0, 10**9), st.integers(-MOST_PS, MOST_PS))
stats = st.tuples(
    st.sampled_from([0, 1, 2, 3, 150, 151, 20_000, 3_000_000, -1]),
    st.one_of(
        st.tuples(st.just("double_value"), st.floats(allow_nan=False)),
        st.tuples(st.just("uint64_value"), st.integers(0, 2**64 - 1)),
        st.tuples(st.just("int64_value"), numbers),
        st.tuples(st.just("str_value"), st.text(max_size=200)),
        st.tuples(st.just("bytes_value"), st.binary(max_size=20)),
        st.tuples(st.just("ref_value"), st.integers(0, 2**63)),
        st.none(),
    ),
)
lengths = st.one_of(st.integers(0, 10**9), st.integers(0, MOST_PS))
events = st.tuples(numbers, st.one_of(times, st.none()), lengths, st.lists(stats, max_size=6))


def build(listed: list[Any]) -> Any:
    line = XLine(id=7, name="a line", timestamp_ns=5)
    for metadata_id, offset, duration, found in listed:
        event = line.events.add(metadata_id=metadata_id, duration_ps=duration)
        if offset is not None:
            event.offset_ps = offset
        for stat_id, value in found:
            stat = event.stats.add(metadata_id=stat_id)
            if value is not None:
                setattr(stat, *value)
    return line


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(events, max_size=8))
def test_generated_lines_read_as_protobuf_reads_them(listed: list[Any]) -> None:
    line = build(listed)
    file, chunks = decode_line(line.SerializeToString(), Wanted(IDS, COLUMNS))
    assert rows_of(file, chunks) == expected(line, IDS, COLUMNS)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=20))
def test_varints(values: list[int]) -> None:
    raw, places = bytearray(), []
    for value in values:
        places.append(len(raw))
        while value > 0x7F:
            raw.append(value & 0x7F | 0x80)
            value >>= 7
        raw.append(value)
    found, length = varints(held(bytes(raw)), np.array(places, np.int64))
    for value, got, size in zip(values, found.tolist(), length.tolist(), strict=True):
        assert size == (0 if value >= 1 << 56 else max(1, -(-value.bit_length() // 7)))
        assert got == value or size == 0


def test_a_line_longer_than_a_block_reads_as_protobuf_reads_it() -> None:
    """Events of many sizes, with strings that look like events, so that walkers are led astray."""
    rng = random.Random(1)
    lure = bytes([0x22, 0x06, 0x08, 0x01, 0x10, 0x05, 0x18, 0x02]) * 30
    line = XLine(name="long")
    while line.ByteSize() < BLOCK + PLAIN if len(line.events) % 4096 == 0 else True:
        event = line.events.add(metadata_id=rng.randrange(1, 400), offset_ps=rng.randrange(10**12))
        event.duration_ps = rng.choice((0, 7, 10**6))
        for stat_id in rng.sample((1, 2, 3, 150), rng.randrange(4)):
            stat = event.stats.add(metadata_id=stat_id)
            if rng.random() < 0.1:
                stat.bytes_value = lure[: rng.randrange(len(lure))]
            else:
                stat.uint64_value = rng.randrange(10**6)
    file, chunks = decode_line(line.SerializeToString(), Wanted(IDS, COLUMNS))
    assert len(chunks) > 1
    assert rows_of(file, chunks) == expected(line, IDS, COLUMNS)


@pytest.mark.parametrize(
    "name", ["tf24_v100_alexnet_fp32", "tf25_turing_chess_fp32", "jax08_mi300_gemm", "tf22_8xv100_bert_step0"]
)
def test_real_events_read_as_protobuf_reads_them(name: str) -> None:
    raw = shared(f"samples/xplane/{name}.xplane.pb").read_bytes()
    file = held(raw)
    for plane, known in zip(scan_space(file.data, file.size).planes, XSpace.FromString(raw).planes, strict=True):
        names = string_map(file.data, plane.stat_metadata)
        assert names == {key: value.name for key, value in known.stat_metadata.items()}
        columns = {name: i for i, name in enumerate(sorted(set(names.values()))[:100])}
        wanted = Wanted(names, columns)
        for span, line in zip(plane.lines, known.lines, strict=True):
            head = line_head(file.data, span)
            assert (head.id, head.name, head.timestamp_ns) == (line.id, line.name, line.timestamp_ns)
            chunks = [decode(file, starts, ends, wanted) for starts, ends in event_bounds(file, head.events)]
            assert rows_of(file, chunks) == expected(line, names, columns)


def damage(raw: bytes, rng: random.Random) -> bytes:
    made = bytearray(raw)
    for _ in range(rng.choice((1, 1, 2, 5))):
        at = rng.randrange(len(made))
        kind = rng.randrange(5)
        if kind == 0:
            made[at] = rng.randrange(256)
        elif kind == 1:
            made[at] ^= 1 << rng.randrange(8)
        elif kind == 2:
            del made[max(at, 1) :]
        elif kind == 3:
            made[at:at] = bytes([rng.choice((255, 128, 127, 0, 34))]) * rng.randrange(1, 12)
        else:
            del made[at : at + rng.randrange(1, 9)]
        made = made or bytearray(b"\0")
    return bytes(made)


def test_damaged_lines_are_refused_or_read_as_protobuf_reads_them() -> None:
    line = build(
        [(5, 10**9, 10**6, [(1, ("ref_value", 9)), (150, ("str_value", "text")), (2, ("double_value", 0.5))])] * 6
    )
    raw, rng = line.SerializeToString(), random.Random(3)
    accepted = 0
    for _ in range(3000):
        bad = damage(raw, rng)
        try:
            found = rows_of(*decode_line(bad, Wanted(IDS, COLUMNS)))
        except DamagedError:
            continue
        try:
            line = XLine.FromString(bad)
        except DecodeError:
            continue
        accepted += 1
        assert found == expected(line, IDS, COLUMNS)
    assert accepted > 300


def test_times_beyond_any_capture_are_damage() -> None:
    with pytest.raises(DamagedError, match="30 days"):
        decode_line(build([(1, MOST_PS + 1, 0, [])]).SerializeToString(), Wanted(IDS, COLUMNS))


def test_an_event_of_negative_length_is_damage() -> None:
    with pytest.raises(DamagedError, match="negative length"):
        decode_line(build([(1, 5, 1, []), (1, 5, -1, [])]).SerializeToString(), Wanted(IDS, COLUMNS))


def test_an_event_past_the_end_of_its_line_is_damage() -> None:
    raw = build([(1, 1, 1, [])] * 3).SerializeToString()
    with pytest.raises(DamagedError):
        decode_line(raw[:-1], Wanted(IDS, COLUMNS))
