"""Events of a trace, whatever it is cut into, packed by, or spoilt with."""

from __future__ import annotations

import gc
import gzip
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.errors import InputError, WrongFormat
from tcprobe.readers.kineto import events
from tcprobe.readers.kineto.events import Event, Trace, read_events

HOSTILE = ['a "}, {" b', "}, {", "[{", "\\", '"traceEvents": [', "\u202e\x7f", "x" * 50]
NAMES = st.sampled_from(HOSTILE) | st.text(max_size=12)
ARGS = st.dictionaries(st.sampled_from(["Input Dims", "odd", "list"]), st.sampled_from([[], [[{"a": 1}, {"b": []}]]]))
EVENTS = st.lists(st.builds(lambda name, args: {"ph": "X", "name": name, "args": args, "ts": 1}, NAMES, ARGS))


def read(path: Path) -> tuple[list[Event], Trace]:
    *parts, last = read_events(path)
    assert isinstance(last, Trace)
    return [event for part in parts if isinstance(part, list) for event in part] + last.events, last


@given(made=EVENTS, block=st.integers(1, 200), indent=st.sampled_from([None, 1]), first=st.booleans())
def test_a_trace_in_blocks_is_the_whole_trace(
    made: list[dict[str, Any]], block: int, indent: int | None, first: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "trace.json"
    beside = {"deviceProperties": [{"id": 0}], "distributedInfo": {"rank": 3}}
    trace = {**beside, "traceEvents": made} if first else {"traceEvents": made, **beside}
    path.write_text(json.dumps(trace, indent=indent, ensure_ascii=False), encoding="utf-8", errors="surrogatepass")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(events, "BLOCK", block)
        found, last = read(path)
    assert [event.name for event in found] == [event["name"] for event in made]
    assert (last.properties, last.distributed) == ([{"id": 0}], {"rank": 3})


@pytest.mark.parametrize("kind", ["plain", "gz", "zip", "list"])
def test_each_packing_is_read(kind: str, tmp_path: Path) -> None:
    path, made = tmp_path / "x", [{"ph": "X", "name": str(n)} for n in range(3)]
    text = json.dumps(made if kind == "list" else {"traceEvents": made}).encode()
    if kind == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("a/worker.pt.trace.json", text)
    else:
        path.write_bytes(gzip.compress(text) if kind == "gz" else text)
    assert [event.name for event in read(path)[0]] == ["0", "1", "2"]
    assert gc.isenabled()


SPOILT = {
    "nan": b'[{"ph": "X", "name": "a", "ts": NaN, "dur": 1.0}, {"name": "b", "ts": 2}]',
    "control": b'[{"ph": "X", "name": "a", "other": "\x01"}, {"name": "b"}]',
    "encoding": b'[{"ph": "X", "name": "a", "other": "\xff"}, {"name": "b"}]',
    "half": b'[{"ph": "X", "name": "a", "other": "\\ud800", "cat": "\\udfff"}, {"name": "b"}]',
    "texts": b'[{"ph": "X", "name": "a", "ts": "12.5", "args": {"device": "0"}}, {"name": "b"}]',
}


@pytest.mark.parametrize("kind", SPOILT)
def test_what_only_pythons_parser_takes_is_read(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(SPOILT[kind])
    assert [event.name for event in read(path)[0]] == ["a", "b"]


REFUSED = {
    "no events": (b'{"a": [1, 2]}', "has no traceEvents"),
    "cut": (b'{"traceEvents": [{"ph": "X", "name": "a"}, {"ph": "X", "na', "damaged or cut off after 0 events"),
    "comma": (b'{"traceEvents": [{"ph": "X"},]}', "damaged or cut off"),
    "deep": (b'{"traceEvents": ' + b"[" * 5000, "damaged or cut off"),
    "deeper": (b'{"traceEvents": [{"args": {"Input Dims": ' + b"[" * 5000 + b"]" * 5000 + b"}}]}", "damaged"),
    "gzip": (gzip.compress(b'{"traceEvents": []}' * 50)[:-12], "cannot be unpacked"),
    "zip": (b"PK\x03\x04 and no archive", "cannot be unpacked"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_no_whole_trace_is_one_clear_error(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    content, message = REFUSED[kind]
    path.write_bytes(content)
    with pytest.raises(WrongFormat, match=message):
        list(read_events(path))
    assert gc.isenabled()


def test_a_cut_in_a_later_block_says_how_many_events_there_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "BLOCK", 64)
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"traceEvents": [{"ph": "X", "name": "a" * 20}] * 9})[:-20])
    with pytest.raises(InputError, match=r"after [5-8] events, which are in no order"):
        list(read_events(path))
