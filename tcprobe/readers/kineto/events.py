"""The events of a Chrome trace, some MB at a time: the file is never in memory as a whole."""

from __future__ import annotations

import gc
import gzip
import json
import re
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeVar

import msgspec
from msgspec import Raw, Struct, field

from tcprobe.errors import WrongFormat
from tcprobe.foreign import GZIP, ZIP, opened, size_text

MOST_FILE: Final = 8 << 30  # bytes as they lie on the disk
MOST_TEXT: Final = 64 << 30  # bytes of JSON; text packs to a tenth
BLOCK: Final = 1 << 20  # larger ones are no faster, and their events take most of the memory
MOST_HEAD: Final = 64 << 20  # bytes before the first event: properties of the devices, and what users add
_LONGEST_EVENT: Final = 1 << 20  # an op with its stack of calls takes some KB
_NO_NUMBER: Final = 1e300  # stands for NaN and infinity: no time is as long
_TRIES: Final = 64  # places of a block at which it may be cut
_EVENTS: Final = re.compile(rb'"traceEvents"\s*:\s*\[')
_ARRAY: Final = re.compile(rb"\s*\[")
_CUT: Final = re.compile(rb"\}\s*,\s*\{")
_ODD: Final = re.compile(rb"NaN|Infinity|\\u[dD][89a-fA-F]|[\x00-\x08\x0b\x0c\x0e-\x1f\x80-\xff]")
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
_Decoded = TypeVar("_Decoded")

_NONE: Final = Raw()


class Args(
    Struct,
    gc=False,
    frozen=True,
    rename={
        "registers": "registers per thread",
        "shared": "shared memory",
        "graph": "graph id",
        "size": "bytes",
        "dims": "Input Dims",
        "old_dims": "Input dims",
        "types": "Input type",
        "strides": "Input Strides",
        "concrete": "Concrete Inputs",
        "sequence": "Sequence number",
        "stack": "Call stack",
        "modules": "Module Hierarchy",
        "collective": "Collective name",
        "group": "Process Group Name",
        "group_about": "Process Group Description",
        "group_size": "Group size",
        "sent": "In msg nelems",
        "received": "Out msg nelems",
    },
):
    """What is read of an event's arguments."""

    device: float | None = None
    stream: float | None = None
    correlation: float | None = None
    registers: float | None = None
    shared: float | None = None
    grid: list[int] | None = None
    block: list[int] | None = None
    graph: float | None = None
    size: float | None = None
    dims: Raw = _NONE
    old_dims: Raw = _NONE
    types: Raw = _NONE
    strides: Raw = _NONE
    concrete: Raw = _NONE
    sequence: float | None = None
    stack: Raw = _NONE  # of traces without frames: to PyTorch 1.12
    modules: Raw = _NONE  # of TorchScript alone
    collective: str | None = None  # of a kernel of NCCL, as the next ones
    dtype: Raw = _NONE
    group: Raw = _NONE
    group_about: Raw = _NONE
    group_size: float | None = None
    sent: float | None = None
    received: float | None = None


class Event(Struct, gc=False, frozen=True):
    """One event: of a duration (``ph`` X), or of another kind, of which nothing is read."""

    ph: str = ""
    cat: str | None = None
    name: str = ""
    pid: int | str | None = None
    tid: int | str | None = None
    ts: float = 0.0  # microseconds
    dur: float = 0.0
    args: Args | None = None


class Counted(Struct, frozen=True):
    """A range in which CUPTI counted: its counters are among its arguments, by any name."""

    cat: str | None = None
    name: str = ""
    pid: int | str | None = None  # the GPU
    args: dict[str, Any] | None = None


class Trace(Struct):
    """What stands beside the events, the last of which it holds."""

    events: list[Event] = field(name="traceEvents", default_factory=list)
    properties: Any = field(name="deviceProperties", default=None)
    distributed: Any = field(name="distributedInfo", default=None)


class _CountedTrace(Struct):
    events: list[Counted] = field(name="traceEvents", default_factory=list)


_LIST: Final = msgspec.json.Decoder(list[Event])
_TRACE: Final = msgspec.json.Decoder(Trace)
_COUNTED: Final = "cuda_profiler_range"
_COUNTED_LIST: Final = msgspec.json.Decoder(list[Counted])
_COUNTED_TRACE: Final = msgspec.json.Decoder(_CountedTrace)


@contextmanager
def text_of(path: Path) -> Iterator[BinaryIO]:
    """Open a trace as its JSON, whether it is packed by gzip, the only file of a zip archive, or neither.

    Raises:
        InputError: the file cannot be read, or ends before what it packs does.
    """
    with opened(path, MOST_FILE) as file:
        start = file.read(4)
        file.seek(0)
        try:
            if start.startswith(GZIP):
                with gzip.GzipFile(fileobj=file) as text:
                    yield text  # type: ignore[misc]
            elif start == ZIP:
                with zipfile.ZipFile(file) as archive:
                    yield _only(archive, path)
            else:
                yield file
        except (EOFError, zlib.error, gzip.BadGzipFile, zipfile.BadZipFile, NotImplementedError) as error:
            raise WrongFormat(path, f"damaged: it cannot be unpacked ({error})", "copy it again") from error


def _only(archive: zipfile.ZipFile, path: Path) -> BinaryIO:
    names = [name for name in archive.namelist() if name.lower().endswith(".json")]
    if len(names) != 1:
        raise WrongFormat(path, f"holds {len(names)} JSON files, expected one trace", "unpack it, and name one of them")
    return archive.open(names[0])  # type: ignore[return-value]


def read_events(path: Path, counted: list[Counted] | None = None) -> Iterator[list[Event] | Trace]:
    """Yield the events of a trace, some at a time; last what stands beside them, with the last of them.

    Args:
        path: the file.
        counted: takes the ranges in which CUPTI counted, as they come.

    Raises:
        InputError: the file cannot be read, is no trace, is cut off or damaged.
    """
    collects = gc.isenabled()
    gc.disable()  # millions of events make no cycle, and looking for some takes longer than to decode them
    try:
        with text_of(path) as file:
            yield from _read(file, path, [] if counted is None else counted)
    finally:
        if collects:
            gc.enable()


def _read(file: BinaryIO, path: Path, counted: list[Counted]) -> Iterator[list[Event] | Trace]:
    text = file.read(BLOCK)
    while (at := _begin(text)) is None:
        if len(text) > MOST_HEAD or not (more := file.read(BLOCK)):
            raise WrongFormat(path, "is no trace: it has no traceEvents", "give the JSON that torch.profiler wrote")
        text += more
    head, rest, events, count = text[:at], text[at:], 0, len(text)
    while more := file.read(BLOCK):
        if (count := count + len(more)) > MOST_TEXT:
            raise WrongFormat(path, f"is too large: over {size_text(MOST_TEXT)} of JSON")
        some, rest = _whole(rest + more, counted)
        if not some:
            break
        events += len(some)
        yield some
    yield _last(head, rest + file.read(), path, events, counted)


def _begin(text: bytes) -> int | None:
    """Return where the events begin: in an object the list of that name, else the list that the file is."""
    match = _EVENTS.search(text) or _ARRAY.match(text)
    return None if match is None else match.end()


def _whole(text: bytes, counted: list[Counted]) -> tuple[list[Event], bytes]:
    """Return the events up to the last end of one, and what follows; no events where no end is seen.

    A cut within an event leaves a bracket or a string open, so that what can be decoded was cut between two.
    """
    places = [match.start() + 1 for match in _CUT.finditer(text, max(0, len(text) - _LONGEST_EVENT))]
    for place in places[: -_TRIES - 1 : -1]:
        whole = b"[" + text[:place] + b"]"
        if (events := _decoded(_LIST, whole)) is not None:
            counted += _ranges(whole, _COUNTED_LIST)
            return events, text[text.index(b"{", place) :]
    return [], text


def _decoded(decoder: msgspec.json.Decoder[_Decoded], text: bytes) -> _Decoded | None:
    """Decode JSON, else what Python's parser takes for it (NaN, control characters, text of no encoding)."""
    try:
        return decoder.decode(text)
    except (msgspec.ValidationError, UnicodeDecodeError):
        pass
    except msgspec.DecodeError:
        if not _ODD.search(text):
            return None
    except RecursionError:
        return None
    try:
        whole = _SURROGATE.sub(rb"\\ufffd", text).decode("utf-8", "replace")
        plain = json.loads(whole, strict=False, parse_constant=lambda _: _NO_NUMBER)
        return msgspec.json.decode(msgspec.json.encode(plain), type=decoder.type, strict=False)
    except (ValueError, RecursionError):
        return None


def _ranges(text: bytes, decoder: msgspec.json.Decoder[Any]) -> list[Counted]:
    """Return the ranges in which CUPTI counted; only a text that has some is decoded a second time."""
    if _COUNTED.encode() not in text or (whole := _decoded(decoder, text)) is None:
        return []
    events = whole.events if isinstance(whole, _CountedTrace) else whole
    return [event for event in events if event.cat == _COUNTED]


def _last(head: bytes, text: bytes, path: Path, count: int, counted: list[Counted]) -> Trace:
    """Decode the last events and what stands before and after all of them."""
    if _EVENTS.search(head):
        trace = _decoded(_TRACE, head + text)
        counted += _ranges(head + text, _COUNTED_TRACE)
    else:
        events = _decoded(_LIST, b"[" + text)
        trace = None if events is None else Trace(events)
        counted += _ranges(b"[" + text, _COUNTED_LIST)
    if trace is None:
        found = f"is damaged or cut off after {count:,} events, which are in no order: nobody knows which are missing"
        raise WrongFormat(path, found, "copy it again, or record it again")
    return trace
