"""NVTX ranges: which are kept, told from their times alone, and what their names tell."""

from __future__ import annotations

from itertools import compress
from typing import Any, Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from tcprobe.grouping import positions_in
from tcprobe.probe.constants import DOMAIN as PROBE
from tcprobe.probe.constants import WINDOW_RANGE
from tcprobe.readers.host_work import holding as of_owners
from tcprobe.readers.nsys.columns import NONE, Columns, Ints, decoded, read_columns, read_distinct, read_strings
from tcprobe.readers.nsys.launches import LATEST, process_of
from tcprobe.readers.nsys.names import RangeName, cut_sql, name_of_range
from tcprobe.readers.nsys.opening import MOST_SMALL, Database
from tcprobe.schema.columns import FloatArray, Names, Table
from tcprobe.schema.tables import RANGES

EVENTS: Final = "NVTX_EVENTS"
# ENUM_NSYS_EVENT_TYPE: NvtxDomainCreate; 59 and 70 are pushed and popped, 60 and 71 started and ended
DOMAIN: Final = 75
SHORTEST_STEP_NS: Final = 100_000  # a shorter range without a launch on its thread is no step
# globalTid of a range that is pushed and popped, and ~globalTid of one that is started and ended, which another thread
# may end; NULL for events that are no range
_THREAD: Final = (
    "CASE WHEN [eventType] IN (59, 70) THEN coalesce([globalTid], 0) "
    "WHEN [eventType] IN (60, 71) THEN ~coalesce([globalTid], 0) END"
)


class Ranges(Columns):
    """Ranges of a recording without their names, in columns.

    These are start and end on the clock of the file; thread, the globalTid, 0 where it is not known; nests, 1 where
    the range was pushed and popped on one thread; place, the row in the table. A range that was open ends with the
    capture.
    """

    events = 0  # rows of the table
    open = 0  # how many ranges had no end


class Named(Struct, frozen=True):
    """What is said of ranges that share domain, text, and thread of the end."""

    domain: str | None
    told: RangeName
    end_thread: int
    text: str  # without PyTorch's numbers


class NamedRanges(Columns):
    """Ranges with their names: those that are held, and of the others the long ones.

    Columns as in `Ranges`, and held, 1 for what is kept whatever it is; code, the place in `named`; sequence, the
    number shared with the forward op, negative for none.
    """

    named: list[Named]

    def table(self, threads: Ints, origin: int) -> Table:
        """Return `ranges`: those that are held, and of the others the steps; none that holds a recording open.

        Args:
            threads: globalTid of each thread, ascending; a place in it is the thread's number.
            origin: start of the capture on the clock of the file.
        """
        told = [one.told for one in self.named]
        steps = np.array([one.kind == "step" for one in told], np.bool_)
        # tcprobe's own range that lasts as long as what is recorded
        window = np.array([(one.domain, one.text) == (PROBE, WINDOW_RANGE) for one in self.named], np.bool_)
        kept = self.take(((self["held"] > 0) | steps[self["code"]]) & ~window[self["code"]])
        start, thread, code, sequence = (kept[name] for name in ("start", "thread", "code", "sequence"))
        columns: dict[str, Any] = {
            name: Names.of([getattr(one, name) for one in told]).take(code)
            for name in ("name", "kind", "op_type", "dtype", "input_shapes")
        }
        ended = np.array([one.end_thread for one in self.named], np.int64)[code]
        return Table(
            RANGES,
            {
                **columns,
                "domain": Names.of([one.domain for one in self.named]).take(code),
                "thread": numbered(threads, thread),
                "start_ns": start - origin,
                "duration_ns": kept["end"] - start,
                "step": np.array([np.nan if one.step is None else one.step for one in told])[code],
                "sequence": np.where(sequence >= 0, sequence, np.nan),
                "nests": kept["nests"],
                "end_thread": numbered(threads, np.where(ended == thread, 0, ended)),
            },
        )


def read_ranges(database: Database, last: int) -> Ranges:
    """Read all ranges, without their names; open ones end at `last`, or where the last range begins or ends."""
    database.need(EVENTS, "start", "end", "eventType", "globalTid")
    rows = read_columns(database, EVENTS, ("start", "end"), thread=_THREAD)
    start, end, thread = rows.values()
    sane = (thread != NONE) & (start > -LATEST) & (start < LATEST) & (end < LATEST) & ((end == NONE) | (end >= start))
    place = np.flatnonzero(sane)
    if len(place) < rows.rows:
        start, end, thread = start[place], end[place], thread[place]
    is_open = end == NONE
    if is_open.any():
        end = np.where(is_open, max(last, int(start.max()), int(end.max())), end)
    nests = (thread >= 0).astype(np.int64)
    ranges = Ranges(start=start, end=end, thread=np.where(nests, thread, ~thread), nests=nests, place=place)
    ranges.events, ranges.open = rows.rows, int(is_open.sum())
    ranges.odd = int(np.count_nonzero(rows["thread"] != NONE)) - len(place)
    return ranges


def holding(ranges: Ranges, called: Ints, threads: Ints) -> NDArray[np.bool_]:
    """Say which ranges hold a call: of their thread, or where they need not end on it, of their process.

    Args:
        ranges: all.
        called: when the calls that launched something began.
        threads: globalTid of each of these calls.
    """
    held = np.zeros(ranges.rows, np.bool_)
    by_thread, by_process = (ranges["thread"], threads), (process_of(ranges["thread"]), process_of(threads))
    for nests, (owner, owners) in ((1, by_thread), (0, by_process)):
        mine = np.flatnonzero(ranges["nests"] == nests)
        held[mine] = of_owners(ranges["start"][mine], ranges["end"][mine], owner[mine], called, owners)
    return held


def numbered(threads: Ints, of: Ints) -> FloatArray:
    """Return the number of each thread; NaN where it is not known."""
    return np.append(np.arange(len(threads)), np.nan)[positions_in(of, threads)]


def read_names(database: Database, ranges: Ranges, held: NDArray[np.bool_]) -> NamedRanges:
    """Read the names of the ranges that are held, and of the others that last as long as a step may.

    Args:
        database: open.
        ranges: all.
        held: which to keep whatever they are.
    """
    chosen = np.flatnonzero(held | (ranges["end"] - ranges["start"] >= SHORTEST_STEP_NS))
    has = {name: database.has(EVENTS, name) for name in ("domainId", "endGlobalTid", "textId", "text")}
    listed = ["[globalTid] >> 24", *(f"[{name}]" if has[name] else "NULL" for name in list(has)[:3])]
    # PyTorch makes each name another one: SQLite cuts its numbers off, so that equal names are one.
    text, sizes, sequence = cut_sql("[text]" if has["text"] else "NULL")
    query = f"SELECT {', '.join(listed)}, {text}, {sizes}, coalesce({sequence}, {NONE}) FROM [{EVENTS}] NOT INDEXED"
    code, distinct, number = _of_rows(database, query, ranges["place"][chosen], ranges.events)
    if len(code) != len(chosen):
        raise database.wrong(f"table {EVENTS} holds other rows the second time that it is read")
    found = NamedRanges(ranges.take(chosen), held=held[chosen].astype(np.int64), code=code, sequence=number)
    found.named = _named(database, distinct)
    return found


def _of_rows(database: Database, query: str, wanted: Ints, rows: int) -> tuple[Ints, list[Any], Ints]:
    """Read columns of some rows of the table: SQLite itself looks up whether a row is wanted, by its number."""
    if not len(wanted):
        return read_distinct(iter(()))
    among = np.zeros(rows, np.uint8)
    among[wanted] = 1
    first, last = database.connection.execute(
        f"SELECT (SELECT min(_rowid_) FROM [{EVENTS}]), (SELECT max(_rowid_) FROM [{EVENTS}])"
    ).fetchone()
    if last - first + 1 == rows:
        one = f" WHERE substr(?1, _rowid_ - {first - 1}, 1) = x'01'"
        return read_distinct(database.connection.execute(query + one, (among.tobytes(),)))
    return read_distinct(compress(database.connection.execute(query), among.tolist()))


def _named(database: Database, distinct: list[Any]) -> list[Named]:
    """Return what distinct (process, domain, thread of the end, id of the text, text, sizes) say."""
    domains = _domains(database) if any(_int(domain) for _, domain, *_ in distinct) else {}
    ids = np.array([NONE if number is None else _int(number) for _, _, _, number, *_ in distinct], np.int64)
    cut = f"SELECT {', '.join(cut_sql('?1')[:2])}"
    found = []
    for (process, domain, ended, _, text, sizes), string in zip(
        distinct, read_strings(database, ids).tolist(), strict=True
    ):
        if string is not None:
            text, sizes = database.connection.execute(cut, (string,)).fetchone()
        where, plain = domains.get((_int(process), _int(domain))), decoded(text) or ""
        told = name_of_range(where, plain)
        told = replace(told, input_shapes=decoded(sizes) or told.input_shapes)
        found.append(Named(where, told, _int(ended), plain))
    return found


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
