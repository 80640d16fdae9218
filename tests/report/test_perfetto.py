"""The trace for ui.perfetto.dev holds the slices of the timeline, track by track, and nothing else."""

from __future__ import annotations

import io
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from msgspec.structs import replace

from tcprobe.analysis import Options
from tcprobe.errors import OutputError, UsageError
from tcprobe.flows.report import make_report
from tcprobe.flows.write import destination, write_document
from tcprobe.readers.protobuf import BYTES, fields, signed
from tcprobe.report import RenderSpec
from tcprobe.report.document import ReportSpec
from tcprobe.report.perfetto import _Trace
from tcprobe.report.run.document import RunDocument
from tcprobe.report.run.timeline import class_words, group_words, lane_words, slice_words
from tcprobe.schema.timeline import Lane, Thing, Timeline
from tests.support import ROOT

FIXTURES = ROOT / "tests" / "fixtures"
GPUS = FIXTURES / "xplane" / "two_gpus.xplane.pb"
KINETO = FIXTURES / "kineto" / "cpu.pt.trace.json.gz"


class Slice(NamedTuple):
    track: tuple[str, str]
    start: int
    length: int
    name: str
    categories: tuple[str, ...]
    arguments: tuple[tuple[str, object], ...]


Event = tuple[int, int, int, list[int], int, list[tuple[int, object]]]
"""Time, type, track, categories, name, and (name, number of a text or value) of arguments."""


def by_hand(data: bytes) -> Iterator[tuple[dict[int, dict[int, str]], tuple[int, str, int] | None, Event | None]]:
    """Yield of each packet its strings, its track, and its event, as a reader of the wire format finds them."""

    def parsed(span: tuple[int, int]) -> dict[int, list[Any]]:
        found: dict[int, list[Any]] = {}
        for number, wire, first, last in fields(data, span):
            found.setdefault(number, []).append((first, last) if wire == BYTES else first)
        return found

    def text(span: tuple[int, int]) -> str:
        return data[slice(*span)].decode()

    for packet in parsed((0, len(data)))[1]:
        held = parsed(packet)
        strings: dict[int, dict[int, str]] = {}
        for kind, spans in parsed(held[12][0]).items() if 12 in held else ():
            strings[kind] = {e[1][0]: text(e[2][0]) for e in map(parsed, spans)}
        track = parsed(held[60][0]) if 60 in held else None
        told = None if track is None else (track[1][0], text(track[2][0]), track.get(5, [0])[0])
        event = None
        if 11 in held:
            assert held[13] == [2]  # strings that came before are used
            own = parsed(held[11][0])
            notes = [parsed(span) for span in own.get(4, [])]
            arguments = [
                (n[1][0], ("text", n[17][0]) if 17 in n else signed(n[4][0]) if 4 in n else None) for n in notes
            ]
            event = (held[8][0], own[9][0], own[11][0], own.get(3, []), own.get(10, [0])[0], arguments)
        yield strings, told, event


def value_of(note: Any) -> object:
    if note.HasField("string_value_iid"):
        return "text", note.string_value_iid
    return note.int_value if note.HasField("int_value") else None


def by_perfetto(data: bytes) -> Iterator[tuple[dict[int, dict[int, str]], tuple[int, str, int] | None, Event | None]]:
    """Yield the same as Perfetto's own description of the format has it."""
    trace = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2").Trace.FromString(data)
    for packet in trace.packet:
        own, held, track = packet.track_event, packet.interned_data, packet.track_descriptor
        kinds = {1: held.event_categories, 2: held.event_names, 3: held.debug_annotation_names}
        strings = {number: {e.iid: e.name for e in entries} for number, entries in kinds.items() if entries}
        strings |= {29: {e.iid: e.str.decode() for e in held.debug_annotation_string_values}}
        told = (track.uuid, track.name, track.parent_uuid) if packet.HasField("track_descriptor") else None
        notes = [(n.name_iid, value_of(n)) for n in own.debug_annotations]
        event = (packet.timestamp, own.type, own.track_uuid, list(own.category_iids), own.name_iid, notes)
        yield strings, told, event if packet.HasField("track_event") else None


def read(data: bytes, reader: Callable[[bytes], Any] = by_hand) -> Counter[Slice]:
    """Return the slices of a trace, replayed as the trace processor does: an end is that of what began last."""
    strings: dict[int, dict[int, str]] = {}
    tracks: dict[int, tuple[str, int]] = {}
    open_, last = dict[int, list[tuple[int, Event]]](), dict[int, int]()
    found = Counter[Slice]()
    for more, track, event in reader(data):
        for kind, entries in more.items():
            strings.setdefault(kind, {}).update(entries)
        if track:
            tracks[track[0]] = track[1:]
        if not event:
            continue
        at, kind, number, categories, name, notes = event
        assert last.get(number, at) <= at
        last[number] = at
        if kind == 1:
            open_.setdefault(number, []).append((at, event))
            continue
        begun, (_, _, _, categories, name, notes) = open_[number].pop()
        arguments = tuple(
            (strings[3][key], strings[29][value[1]] if isinstance(value, tuple) else value) for key, value in notes
        )
        where = tracks[tracks[number][1]][0], tracks[number][0]
        found[
            Slice(where, begun, at - begun, strings[2][name], tuple(strings[1][c] for c in categories), arguments)
        ] += 1
    assert not any(open_.values())
    return found


def expected(timeline: Timeline, shift: int = 0) -> Counter[Slice]:
    found = Counter[Slice]()
    for lane in timeline.lanes:
        for start, length, place in zip(
            lane.start_ns.tolist(), lane.duration_ns.tolist(), lane.thing.tolist(), strict=True
        ):
            thing = lane.things[place]
            told = class_words(lane.kind, thing)
            arguments = [("class", told), ("kind", thing.kind)]
            arguments += [("evidence", thing.name)] if lane.kind == "wait" else []
            plain = [
                (k, v if isinstance(v, str | int) else None) for k, v in (*arguments, *thing.more) if v is not None
            ]
            categories = tuple(c for c in (told, thing.kind) if c) or (lane.kind,)
            where = group_words(lane, timeline), lane_words(lane)
            found[Slice(where, start + shift, length, slice_words(lane.kind, thing), categories, tuple(plain))] += 1
    return found


def written(timeline: Timeline) -> bytes:
    out = io.BytesIO()
    _Trace(timeline).write(out)
    return out.getvalue()


@pytest.mark.parametrize("reader", [by_hand, by_perfetto])
@pytest.mark.parametrize("path", [GPUS, KINETO], ids=["xspace", "kineto"])
def test_a_trace_holds_the_slices_of_each_lane(path: Path, reader: Callable[[bytes], Any]) -> None:
    timeline = make_report(path, Options(timeline=True)).timeline
    assert timeline is not None
    found = read(written(timeline), reader)
    assert found == expected(timeline) and len({one.track for one in found}) == len(timeline.lanes)


def lane(times: list[tuple[int, int]], names: list[str], depth: list[int] | None = None, **more: Any) -> Lane:
    start, length = (np.array([one[i] for one in times], np.int64) for i in (0, 1))
    levels = np.array(depth or [0] * len(times), np.int32)
    made = Lane(
        "range", None, 1, 0, start, length, levels, np.arange(len(times), dtype=np.int32), tuple(map(Thing, names))
    )
    return replace(made, **more)


def test_nested_slices_end_from_the_inside_and_times_may_lie_before_the_start() -> None:
    nested = lane([(-5, 20), (-5, 0), (0, 10), (10, 5), (15, 2)], list("abcde"), [0, 1, 1, 1, 0])
    timeline = Timeline((nested,), {})
    assert read(written(timeline)) == expected(timeline, shift=5)


def test_any_name_is_kept_whole() -> None:
    names = ["</script>\x00\x1b[2J\u202e", "x" * 100_000, "", "\ud800 half", "日本語"]
    timeline = Timeline((lane([(i, 1) for i in range(5)], names),), {0: None})
    found = {one.name for one in read(written(timeline))}
    assert found == {*names[:3], "\\ud800 half", names[4]}


def write(path: Path, to: Path, by: tuple[str, ...] = ()) -> list[Path]:
    document = RunDocument(make_report(path, Options(timeline=True)), ReportSpec(by=by))
    return write_document(document, RenderSpec(), destination("run", None, str(to)))


def test_a_trace_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    target, other = tmp_path / "trace.pftrace", tmp_path / "other.perfetto-trace"
    assert write(KINETO, target) == [target] and read(target.read_bytes())
    with pytest.raises(OutputError, match="exists already"):
        write(KINETO, target)
    with pytest.raises(UsageError, match="no timeline: this source does not say when anything ran"):
        write(FIXTURES / "starting_case" / "run", other)
    with pytest.raises(UsageError, match="--by chooses tables"):
        write(KINETO, other, ("op",))
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.long
def test_a_million_slices_take_seconds() -> None:
    count = 1_000_000
    things = tuple(Thing(f"kernel_{i}", "used", "matmul", (("op", f"op/{i}"), ("grid", "1,1,1"))) for i in range(2000))
    start = np.arange(count, dtype=np.int64) * 3000
    kernels = Lane("stream", 0, 7, 0, start, np.full(count, 2000), np.zeros(count, np.int32),
                   np.arange(count, dtype=np.int32) % 2000, things)  # fmt: skip
    out, begun = io.BytesIO(), time.process_time()
    _Trace(Timeline((kernels,), {0: None})).write(out)
    assert time.process_time() - begun < 10
    assert out.getbuffer().nbytes < 100e6
