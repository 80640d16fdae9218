"""NVTX ranges: which are kept, told from their times alone, and what their names tell."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import compress
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tcprobe.probe.constants import DOMAIN as PROBE
from tcprobe.probe.constants import WINDOW_RANGE
from tcprobe.readers.nsys.columns import NONE, Ints, decoded, read_columns, read_distinct, read_strings
from tcprobe.readers.nsys.launches import LATEST, process_of
from tcprobe.readers.nsys.names.text import told
from tcprobe.readers.nsys.names.torch import Cut, cut, sequence_sql, sizes_sql, text_sql
from tcprobe.readers.nsys.opening import MOST_SMALL, Database
from tcprobe.schema.columns import FloatArray, Names, Table
from tcprobe.schema.tables import RANGES

Mask = NDArray[np.bool_]

EVENTS: Final = "NVTX_EVENTS"
# ENUM_NSYS_EVENT_TYPE: NvtxDomainCreate; 59 and 70 are pushed and popped, 60 and 71 started and ended
DOMAIN: Final = 75
SHORTEST_STEP_NS: Final = 100_000  # a shorter range without a launch on its thread is no step
# The thread of a range; of one that is started and ended its complement, of what is no range nothing.
_THREAD: Final = (
    "CASE WHEN [eventType] IN (59, 70) THEN coalesce([globalTid], 0) "
    "WHEN [eventType] IN (60, 71) THEN ~coalesce([globalTid], 0) END"
)


@dataclass(slots=True)
class Ranges:
    """Ranges of a recording, without their names.

    Attributes:
        start, end: on the clock of the file; an open range ends with the capture.
        thread: globalTid of each; 0 where it is not known.
        nests: whether each was pushed and popped on one thread.
        place: of each among the rows of the table.
        rows: of the table.
        open: how many had no end.
        odd: how many were left out, as they end before they start or have times that no clock gives.
    """

    start: Ints
    end: Ints
    thread: Ints
    nests: Mask
    place: Ints
    rows: int
    open: int
    odd: int

    def __len__(self) -> int:
        return len(self.start)


def read_ranges(database: Database, last: int) -> Ranges:
    """Read all ranges, without their names; open ones end at `last`, or where the last range begins or ends."""
    if database.has(EVENTS):
        database.need(EVENTS, "start", "end", "eventType", "globalTid")
    rows = read_columns(database, EVENTS, ("start", "end"), thread=_THREAD)
    start, end, thread = rows["start"], rows["end"], rows["thread"]
    ranges = (thread != NONE) & (start > -LATEST) & (start < LATEST) & (end < LATEST)
    is_open = end == NONE
    ranges &= is_open | (end >= start)
    count = int(np.count_nonzero(thread != NONE))
    place = np.flatnonzero(ranges)
    if len(place) < len(rows):
        start, end, thread, is_open = start[place], end[place], thread[place], is_open[place]
    if is_open.any():
        end = np.where(is_open, max(last, int(start.max()), int(end.max())), end)
    nests = thread >= 0
    thread = np.where(nests, thread, ~thread)
    return Ranges(start, end, thread, nests, place, len(rows), int(is_open.sum()), count - len(place))


def holding(ranges: Ranges, called: Ints, threads: Ints) -> Mask:
    """Say which ranges hold a call: of their thread, or where they need not end on it, of their process.

    Args:
        ranges: all.
        called: when the calls that launched something began.
        threads: globalTid of each of these calls.
    """
    held = np.zeros(len(ranges), np.bool_)
    for nests, owner, owners in (
        (True, ranges.thread, threads),
        (False, process_of(ranges.thread), process_of(threads)),
    ):
        mine = np.flatnonzero(ranges.nests == nests)
        if len(mine):
            _mark(held, mine, ranges, owner[mine], called, owners)
    return held


def _mark(held: Mask, mine: Ints, ranges: Ranges, owner: Ints, called: Ints, owners: Ints) -> None:
    """Set `held` for ranges in which a call of their owner begins: the next after the start is within."""
    if not len(called):
        return
    order = np.lexsort((called, owners))
    bounds = np.searchsorted(owners[order], distinct := np.unique(owners))
    for number, (one, times) in enumerate(zip(distinct.tolist(), np.split(called[order], bounds[1:]), strict=True)):
        rows = mine[owner == one] if number < _MOST_OWNERS else mine[:0]
        following = np.append(times, LATEST)[np.searchsorted(times, ranges.start[rows])]
        held[rows] = following <= ranges.end[rows]


_MOST_OWNERS: Final = 4096  # threads that launch; a machine has fewer


def distinct_threads(threads: Ints) -> Ints:
    """Return the distinct values, ascending; quick where equal ones follow one another."""
    changes = np.ones(len(threads), np.bool_)
    changes[1:] = threads[1:] != threads[:-1]
    return np.unique(threads[changes])


@dataclass(frozen=True, slots=True)
class Named:
    """What is said of distinct ranges: columns of `ranges`, and the text itself without PyTorch's numbers."""

    domain: str | None
    name: str
    kind: str | None
    step: int | None
    op_type: str | None
    dtype: str | None
    input_shapes: str | None
    end_thread: int
    text: str


@dataclass(slots=True)
class NamedRanges:
    """Ranges with their names: those that are held, and of the others the long ones.

    Attributes:
        start, end, thread, nests: as in `Ranges`.
        held: whether each is kept whatever it is.
        code: place in `named` of what is said of each.
        named: what is said.
        sequence: number shared with the forward op; negative for none.
    """

    start: Ints
    end: Ints
    thread: Ints
    nests: Mask
    held: Mask
    code: NDArray[np.int32]
    named: list[Named]
    sequence: Ints

    def table(self, threads: Ints, origin: int) -> Table:
        """Return `ranges`: those that are held, and of the others the steps; none that holds a recording open.

        Args:
            threads: globalTid of each thread, ascending; a place in it is the thread's number.
            origin: start of the capture on the clock of the file.
        """
        steps, own = (np.array([test(one) for one in self.named], np.bool_) for test in (_is_step, _is_window))
        kept = np.flatnonzero((self.held | steps[self.code]) & ~own[self.code])
        code, sequence = self.code[kept], self.sequence[kept]
        columns: dict[str, Any] = {
            name: Names.of([getattr(one, name) for one in self.named]).take(code)
            for name in ("domain", "name", "kind", "op_type", "dtype", "input_shapes")
        }
        start, thread = self.start[kept], self.thread[kept]
        ended = np.array([one.end_thread for one in self.named], np.int64)[code]
        return Table(
            RANGES,
            {
                **columns,
                "thread": numbered(threads, thread),
                "start_ns": start - origin,
                "duration_ns": self.end[kept] - start,
                "step": np.array([np.nan if one.step is None else one.step for one in self.named])[code],
                "sequence": np.where(sequence >= 0, sequence, np.nan),
                "nests": self.nests[kept],
                "end_thread": numbered(threads, np.where(ended == thread, 0, ended)),
            },
        )


def _is_step(one: Named) -> bool:
    return one.kind == "step"


def _is_window(one: Named) -> bool:
    """Whether a range is the one of tcprobe's own that lasts as long as what is recorded."""
    return (one.domain, one.text) == (PROBE, WINDOW_RANGE)


def read_names(database: Database, ranges: Ranges, held: Mask) -> NamedRanges:
    """Read the names of the ranges that are held, and of the others that last as long as a step may.

    Args:
        database: open.
        ranges: all.
        held: which to keep whatever they are.
    """
    looked = np.flatnonzero(held | (ranges.end - ranges.start >= SHORTEST_STEP_NS))
    code, named, sequence = _names(database, ranges, looked)
    start, end, thread = (column[looked] for column in (ranges.start, ranges.end, ranges.thread))
    return NamedRanges(start, end, thread, ranges.nests[looked], held[looked], code, named, sequence)


def numbered(threads: Ints, of: Ints) -> FloatArray:
    """Return the number of each thread; NaN where it is not known."""
    if not len(threads):
        return np.full(len(of), np.nan)
    place = np.minimum(np.searchsorted(threads, of), len(threads) - 1)
    return np.where(threads[place] == of, place, np.nan)


def _names(database: Database, ranges: Ranges, looked: Ints) -> tuple[NDArray[np.int32], list[Named], Ints]:
    """Return (number of each range's name, what each name says, number shared with the forward op)."""
    has = {name: database.has(EVENTS, name) for name in ("domainId", "endGlobalTid", "textId", "text")}
    listed = ["[globalTid] >> 24", *(f"[{name}]" if has[name] else "NULL" for name in list(has)[:3])]
    # PyTorch makes each name another one: SQLite cuts its numbers off, so that equal names are one.
    cuts = [sql("[text]") for sql in (text_sql, sizes_sql, sequence_sql)] if has["text"] else ["NULL"] * 3
    listed += [*cuts[:2], f"coalesce({cuts[2]}, {NONE})"]
    code, distinct, sequence = _of_rows(database, ", ".join(listed), ranges.place[looked], ranges.rows)
    if len(code) != len(looked):
        raise database.wrong(f"table {EVENTS} holds other rows the second time that it is read")
    return code, _told(database, distinct), sequence


def _of_rows(database: Database, listed: str, wanted: Ints, rows: int) -> tuple[NDArray[np.int32], list[Any], Ints]:
    """Read columns of some rows of the table: SQLite itself looks up whether a row is wanted, by its number."""
    if not len(wanted):
        return read_distinct(iter(()))
    among = np.zeros(rows, np.uint8)
    among[wanted] = 1
    first, last = database.connection.execute(
        f"SELECT (SELECT min(_rowid_) FROM [{EVENTS}]), (SELECT max(_rowid_) FROM [{EVENTS}])"
    ).fetchone()
    query = f"SELECT {listed} FROM [{EVENTS}] NOT INDEXED"
    if last - first + 1 == rows:
        one = f" WHERE substr(?1, _rowid_ - {first - 1}, 1) = x'01'"
        return read_distinct(database.connection.execute(query + one, (among.tobytes(),)))
    return read_distinct(compress(database.connection.execute(query), among.tolist()))


def _told(database: Database, distinct: list[Any]) -> list[Named]:
    """Return what distinct (process, domain, thread of the end, id of the text, text, sizes) say."""
    domains = _domains(database) if any(_int(domain) for _, domain, *_ in distinct) else {}
    ids = np.array([NONE if number is None else _int(number) for _, _, _, number, *_ in distinct], np.int64)
    registered = read_strings(database, ids).tolist()
    named = []
    for (process, domain, ended, _, text, sizes), string in zip(distinct, registered, strict=True):
        where = domains.get((_int(process), _int(domain)))
        plain = Cut(decoded(text) or "", None, decoded(sizes)) if string is None else cut(string)
        what = told(where, plain.text)
        shapes = plain.sizes or what.input_shapes
        row = (where, what.name, what.kind, what.step, what.op_type, what.dtype, shapes, _int(ended), plain.text)
        named.append(Named(*row))
    return named


def _int(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _domains(database: Database) -> dict[tuple[int, int], str]:
    """Return the names of domains, by process and number; the default domain has none."""
    columns = [name for name in ("globalTid", "domainId", "textId", "text") if database.has(EVENTS, name)]
    if "domainId" not in columns:
        return {}
    listed = ", ".join(f"[{name}]" for name in columns)
    query = f"SELECT {listed} FROM [{EVENTS}] NOT INDEXED WHERE [eventType] = {DOMAIN} LIMIT {MOST_SMALL + 1}"
    rows = [dict(zip(columns, row, strict=True)) for row in database.connection.execute(query)]
    if len(rows) > MOST_SMALL:
        raise database.wrong(f"table {EVENTS} names more than {MOST_SMALL:,} domains")
    ids = np.array([NONE if row.get("textId") is None else _int(row["textId"]) for row in rows], np.int64)
    names = [
        name or decoded(row.get("text")) for name, row in zip(read_strings(database, ids).tolist(), rows, strict=True)
    ]
    keys = [(_int(row["globalTid"]) >> 24, _int(row["domainId"])) for row in rows]
    return {key: name for key, name in zip(keys, names, strict=True) if name}
