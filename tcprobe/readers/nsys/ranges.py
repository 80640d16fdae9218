"""NVTX ranges: which are kept, told from their times alone, and what their names tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tcprobe.readers.arrays import combine, dense
from tcprobe.readers.nsys.calls import process_of
from tcprobe.readers.nsys.columns import NONE, ROW, Columns, Ints, read_columns, read_strings, read_texts
from tcprobe.readers.nsys.launches import LATEST
from tcprobe.readers.nsys.names import told
from tcprobe.readers.nsys.opening import Database
from tcprobe.readers.nsys.told import Told
from tcprobe.readers.nsys.torch_names import cut
from tcprobe.schema.columns import FloatArray, Names, Table
from tcprobe.schema.tables import RANGES

EVENTS: Final = "NVTX_EVENTS"
# ENUM_NSYS_EVENT_TYPE
PUSHED: Final = (59, 70)
STARTED: Final = (60, 71)
DOMAIN: Final = 75


@dataclass(frozen=True, slots=True)
class Ranges:
    """The ranges of a recording.

    Attributes:
        rows: the columns of NVTX_EVENTS for each, `end` filled in where it is open.
        open: how many were open when the capture ended.
        odd: rows left out, as they end before they start or have impossible times.
    """

    rows: Columns
    open: int
    odd: int


def read_ranges(database: Database) -> Columns:
    """Read all ranges, without their names."""
    types = ", ".join(map(str, (*PUSHED, *STARTED)))
    names = (ROW, "start", "end", "globalTid", "endGlobalTid", "eventType", "textId", "domainId")
    return read_columns(database, EVENTS, names, f"[eventType] IN ({types})")


def closed(rows: Columns, last: int) -> Ranges:
    """End open ranges with the capture, and leave out what cannot be."""
    start, end = rows["start"], rows["end"]
    is_open = end == NONE
    end = np.where(is_open, np.maximum(start, last), end)
    sane = (start > -LATEST) & (start < LATEST) & (end >= start) & (end < LATEST)
    kept = rows.take(sane).with_column("end", end[sane])
    return Ranges(kept, int(np.count_nonzero(is_open & sane)), int(np.count_nonzero(~sane)))


def holding(rows: Columns, called: Ints, threads: Ints) -> NDArray[np.bool_]:
    """Say which ranges hold a call: of their thread, or where they need not end on it, of their process.

    Args:
        rows: ranges.
        called: when the calls that launched something began.
        threads: globalTid of each of these calls.
    """
    nests = np.isin(rows["eventType"], PUSHED)
    held = np.zeros(len(rows), np.bool_)
    held[nests] = _held(rows, nests, rows["globalTid"], called, threads)
    held[~nests] = _held(rows, ~nests, process_of(rows["globalTid"]), called, process_of(threads))
    return held


def _held(rows: Columns, mask: NDArray[np.bool_], owner: Ints, called: Ints, owners: Ints) -> NDArray[np.bool_]:
    """Say for the masked ranges whether a call of the same owner begins within."""
    if not len(called) or not mask.any():
        return np.zeros(int(np.count_nonzero(mask)), np.bool_)
    times = np.unique(called)
    code, _ = dense(np.concatenate([owners, owner[mask]]))
    width = len(times) + 1
    keys = np.sort(code[: len(owners)] * width + np.searchsorted(times, called))
    base = code[len(owners) :] * width
    first = np.searchsorted(keys, base + np.searchsorted(times, rows["start"][mask], side="left"))
    last = np.searchsorted(keys, base + np.searchsorted(times, rows["end"][mask], side="right"))
    return last > first


def domains(database: Database) -> dict[tuple[int, int], str]:
    """Return the names of domains, by process and number; the default domain has none."""
    found = {}
    if database.has(EVENTS, "eventType", "domainId", "globalTid"):
        rows = read_columns(database, EVENTS, (ROW, "globalTid", "textId", "domainId"), f"[eventType] = {DOMAIN}")
        names = texts(database, rows)
        keys = zip(process_of(rows["globalTid"]).tolist(), rows["domainId"].tolist(), strict=True)
        found = {key: name for key, name in zip(keys, names.tolist(), strict=True) if name}
    return found


def texts(database: Database, rows: Columns) -> Names:
    """Return the names of some rows of NVTX_EVENTS, with `_rowid_` ascending: the registered string, else the text."""
    registered = rows["textId"] != NONE
    strings = read_strings(database, rows["textId"][registered])
    ids = np.full(len(rows), -1, np.int32)
    ids[registered] = strings.ids
    inline = _inline(database, rows[ROW][~registered])
    ids[~registered] = np.where(inline.ids < 0, -1, inline.ids + len(strings.names))
    return Names(ids, [*strings.names, *inline.names])


def _inline(database: Database, wanted: Ints) -> Names:
    """Return the text in some rows: one scan, in which SQLite looks each row up in a map of those wanted."""
    if not len(wanted) or not database.has(EVENTS, "text"):
        return Names(np.full(len(wanted), -1), [])
    if wanted[0] < 0 or wanted[-1] > database.most_rows:
        raise database.wrong(f"rows of table {EVENTS} have numbers that nsys does not give")
    among = np.zeros(int(wanted[-1]) + 1, np.uint8)
    among[wanted] = 1
    query = f"SELECT [text] FROM [{EVENTS}] NOT INDEXED WHERE substr(?1, {ROW} + 1, 1) = x'01'"
    found = read_texts(database, query, (among.tobytes(),))
    if len(found) != len(wanted):
        raise database.wrong(f"rows of table {EVENTS} are there twice")
    return found


def ranges_table(database: Database, rows: Columns, threads: Ints, origin: int) -> Table:
    """Return `ranges`.

    Args:
        database: open.
        rows: the ranges to keep.
        threads: globalTid of each thread, ascending; a place in it is the thread's number.
        origin: start of the capture on the clock of the file.
    """
    names = texts(database, rows)
    process, processes = dense(process_of(rows["globalTid"]))
    domain, numbers = dense(rows["domainId"])
    known = domains(database)
    pairs, first = combine([process, domain])
    of_pair = [known.get((int(processes[process[r]]), int(numbers[domain[r]]))) for r in first.tolist()]
    cuts = [cut(name) for name in names.names]
    plain, plains = _interned([one.text for one in cuts])
    text = np.array([*plain, -1], np.int32)[names.ids]
    code, rows_of = combine([pairs, text])
    domain_of = Names.of(of_pair)
    tellings = [
        told(domain_of[int(pairs[r])], plains[int(text[r])]) if text[r] >= 0 else Told("") for r in rows_of.tolist()
    ]
    sequence = np.array([*(np.nan if one.sequence is None else one.sequence for one in cuts), np.nan])[names.ids]
    sizes = Names.of([*(one.sizes for one in cuts), None]).take(names.ids)
    columns: dict[str, Any] = {
        "domain": domain_of.take(pairs),
        "name": Names.of([one.name for one in tellings]).take(code),
        "thread": _numbered(threads, rows["globalTid"]),
        "start_ns": rows["start"] - origin,
        "duration_ns": rows["end"] - rows["start"],
        **{
            name: Names.of([getattr(one, name) for one in tellings]).take(code) for name in ("kind", "op_type", "dtype")
        },
        "input_shapes": _either(sizes, Names.of([one.input_shapes for one in tellings]).take(code)),
        "step": np.array([np.nan if one.step is None else one.step for one in tellings])[code],
        "sequence": sequence,
        "nests": np.isin(rows["eventType"], PUSHED).astype(np.float64),
        "end_thread": _ended(threads, rows),
    }
    return Table(RANGES, columns)


def _either(first: Names, second: Names) -> Names:
    """Return the first column, where it is NA the second."""
    if not (first.ids >= 0).any():
        return second
    ids = np.where(first.ids >= 0, first.ids, np.where(second.ids < 0, -1, second.ids + len(first.names)))
    return Names(ids, [*first.names, *second.names])


def _interned(values: Sequence[str]) -> tuple[list[int], list[str]]:
    index: dict[str, int] = {}
    return [index.setdefault(value, len(index)) for value in values], list(index)


def _numbered(threads: Ints, of: Ints) -> FloatArray:
    return np.where(of == NONE, np.nan, np.searchsorted(threads, of).astype(np.float64))


def _ended(threads: Ints, rows: Columns) -> FloatArray:
    """Return the thread on which each range ended, where that is another one."""
    end = rows["endGlobalTid"]
    return _numbered(threads, np.where(end == rows["globalTid"], NONE, end))
