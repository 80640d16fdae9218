"""Join the profiles of several sources of one run: each table from the richest source, what it lacks from the others.

Nothing is added up: the same kernel in two sources is one kernel. Only launches of another host or rank stand beside:
their GPUs are numbered through.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from tcprobe.schema.columns import Names, Row, Table, Value, concatenate
from tcprobe.schema.profile import Metadata, Note, Profile, ProfileSource
from tcprobe.schema.tables import HOST_OPS, TABLES

# What ran on a GPU or was called for it; of step marks, graph and steps all ranks have the same.
BESIDE: Final = (
    *("launches", "launch_configs", "op_details", "memory_ops", "ranges", "threads", "devices", "host_ops"),
    "host_events",
)
_ROWS_OF: Final = {"op_id": "op_details", "config_id": "launch_configs"}
_COUNTED_THROUGH: Final = ("device", "thread", "process")


def apart(one: Metadata, other: Metadata) -> bool:
    """Return whether two sources say that they recorded different hosts or ranks."""
    pairs = ((one.host, other.host), (one.rank, other.rank))
    return any(None not in pair and pair[0] != pair[1] for pair in pairs)


def stack(profiles: Sequence[Profile]) -> Profile:
    """Return one Profile of what different hosts or ranks recorded; all but the tables of `BESIDE` are the first's.

    GPUs and threads are numbered through; times count from the start of each one's own capture. An op of the host
    that several ran is one row, its calls and times added up.
    """
    first, *others = profiles
    result = first
    for other in others:
        result = result.with_tables(*_beside(result, other))
    if others:
        result = result.with_tables(_host_ops(result.require("host_ops"))).with_notes(_whose(profiles))
    return result


def _beside(base: Profile, other: Profile) -> list[Table]:
    after = {name: _next(base, name) for name in _COUNTED_THROUGH}
    after |= {column: len(base.require(table)) for column, table in _ROWS_OF.items()}
    tables = []
    for name in BESIDE:
        if (table := other.table(name)) is not None:
            moved = table.with_columns(**{c: _moved(table.numbers(c), n) for c, n in after.items() if c in table})
            held = base.table(name)
            tables.append(moved if held is None else concatenate(TABLES[name], [held, moved]))
    return tables


def _moved(numbers: Any, by: int) -> Any:
    """Return ids that count on after those of another source; -1 stays none."""
    return np.where(numbers < 0, numbers, numbers + by)


def _next(profile: Profile, column: str) -> int:
    columns = [table.numbers(column) for table in profile.tables.values() if column in table]
    return max((int(np.nanmax(c)) + 1 for c in columns if len(c) and not np.isnan(c).all()), default=0)


def _host_ops(table: Table) -> Table:
    found: dict[tuple[object, object], Row] = {}
    for row in table.rows():
        held = found.setdefault((row["op"], row["op_type"]), row)
        if held is not row:
            for column, join in (("calls", sum), ("sum_ns", sum), ("min_ns", min), ("max_ns", max)):
                held[column] = join([int(held[column] or 0), int(row[column] or 0)])
    return Table.from_rows(HOST_OPS, list(found.values()))


def _whose(profiles: Sequence[Profile]) -> Note:
    """Return which GPUs are whose."""
    owned, start = [], 0
    for profile in profiles:
        held = _next(profile, "device")
        gpus = f"{start}-{start + held - 1}" if held > 1 else str(start)
        owned += [f"{_place(profile.metadata)}: {gpus}"] if held else []
        start += held
    return Note("several-hosts", f"GPUs by host: {'; '.join(owned)}", level="note")


def _place(metadata: Metadata) -> str:
    rank = None if metadata.rank is None else f"rank {metadata.rank}"
    return ", ".join(part for part in (metadata.host, rank) if part) or metadata.format


OTHER_CAPTURE: Final = "its times and row numbers are those of another capture"
RICHER: Final = "{} gives it"
_FIRST_KNOWN: Final = (
    *("profiler", "framework", "host", "rank", "command", "precision", "xla", "target_gpu", "gpu_used", "run"),
)


class _Taken(Struct):
    """What was taken of one source, as `ProfileSource` has it."""

    tables: list[str] = field(default_factory=list)
    columns: dict[str, tuple[str, ...]] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)


def merge(profiles: Sequence[Profile]) -> Profile:
    """Return one Profile of several sources of one run; launches of other hosts or ranks beside those of the first.

    Args:
        profiles: as their readers returned them, richest first; at least one.
    """
    capture = profiles[_capture(profiles)].metadata
    away = [len(p.require("launches")) > 0 and apart(capture, p.metadata) for p in profiles]
    elsewhere = [profile for profile, far in zip(profiles, away, strict=True) if far]
    here = _merge([profile for profile, far in zip(profiles, away, strict=True) if not far])
    if not elsewhere:
        return here
    sources = (
        ProfileSource(p.metadata.format, p.metadata.paths, tuple(n for n in BESIDE if n in p.tables)) for p in elsewhere
    )
    notes = (note for profile in elsewhere for note in profile.metadata.notes)
    joined = stack([here, *elsewhere]).with_notes(*notes)
    paths = (path for profile in elsewhere for path in profile.metadata.paths)
    return joined.with_metadata(
        sources=(*here.metadata.sources, *sources), paths=tuple(dict.fromkeys((*here.metadata.paths, *paths)))
    )


def _merge(profiles: Sequence[Profile]) -> Profile:
    """Return one Profile of several sources of one run on one host.

    A table comes whole from the first source that has rows of it; of some (`TableSpec.adds`) the rows of all count.
    Tables of a capture (`TableSpec.capture`) come all from one source: clocks and row numbers of two captures have
    nothing to do with one another. Of the others, a column that is NA throughout is filled where the key of the table
    finds the row. What the first does not know of its run, the next does; notes follow one another.
    """
    capture = _capture(profiles)
    taken = [_Taken() for _ in profiles]
    tables: dict[str, Table] = {}
    for name in TABLES:
        holders = _holders(name, profiles, capture, taken)
        if holders:
            tables[name] = _joined(name, profiles, holders, taken)
    absent: dict[str, str] = {}
    for profile in profiles:
        absent = {**{n: why for n, why in profile.absent.items() if n not in tables}, **absent}
    sources = tuple(
        ProfileSource(p.metadata.format, p.metadata.paths, tuple(t.tables), t.columns, t.left_out)
        for t, p in zip(taken, profiles, strict=True)
    )
    return Profile(replace(_metadata(profiles, capture), sources=sources), tables, absent, profiles[0].traits)


def _capture(profiles: Sequence[Profile]) -> int:
    """Return the source whose capture counts: the first with launches, else the first with any table of one."""
    names = [name for name, spec in TABLES.items() if spec.capture]
    with_launches = (i for i, p in enumerate(profiles) if len(p.require("launches")))
    with_any = (i for i, p in enumerate(profiles) if any(name in p.tables for name in names))
    return next(with_launches, next(with_any, 0))


def _holders(name: str, profiles: Sequence[Profile], capture: int, taken: list[_Taken]) -> list[int]:
    """Return which sources a table may come from, the one that gives it first."""
    holders = [i for i, profile in enumerate(profiles) if name in profile.tables]
    if TABLES[name].capture:
        for i in set(holders) - {capture}:
            taken[i].left_out[name] = OTHER_CAPTURE
        holders = [i for i in holders if i == capture]
    return sorted(holders, key=lambda i: not len(profiles[i].tables[name]))


def _joined(name: str, profiles: Sequence[Profile], holders: Sequence[int], taken: list[_Taken]) -> Table:
    first, *others = holders
    table = profiles[first].tables[name]
    taken[first].tables.append(name)
    if TABLES[name].adds:
        for i in others:
            taken[i].tables.append(name)
        return concatenate(TABLES[name], [profiles[i].tables[name] for i in holders])
    for i in others:
        table, columns = fill(table, profiles[i].tables[name])
        if columns:
            taken[i].columns[name] = columns
        else:
            taken[i].left_out[name] = RICHER.format(profiles[first].metadata.format)
    return table


def fill(table: Table, other: Table) -> tuple[Table, tuple[str, ...]]:
    """Fill columns of `table` that are NA throughout from the rows of `other` with the same key.

    A key that occurs twice in either names no row. Returns the table and the names of the columns filled.
    """
    lacking = [c.name for c in table.spec.columns if _unknown(table, c.name) and not _unknown(other, c.name)]
    if not table.spec.key or not lacking:
        return table, ()
    theirs, ours = _rows_by_key(other), _rows_by_key(table)
    pairs = {ours[key]: row for key, row in theirs.items() if key in ours}
    filled: dict[str, list[Value]] = {}
    for name in lacking:
        values = other.values(name)
        found = [values[pairs[row]] if row in pairs else None for row in range(len(table))]
        if any(value is not None for value in found):
            filled[name] = found
    return (table.with_columns(**filled), tuple(filled)) if filled else (table, ())


def _unknown(table: Table, column: str) -> bool:
    data = table.columns[column]
    if isinstance(data, Names):
        return not bool((data.ids >= 0).any())
    return data.dtype.kind == "f" and bool(np.isnan(data).all())


def _rows_by_key(table: Table) -> dict[tuple[Value, ...], int]:
    keys = list(zip(*(table.values(name) for name in table.spec.key), strict=True))
    count = Counter(keys)
    return {key: row for row, key in enumerate(keys) if count[key] == 1}


def _metadata(profiles: Sequence[Profile], capture: int) -> Metadata:
    """Return the first source's metadata, what it does not know from the next; the window is the capture's."""
    known: dict[str, Any] = {}
    for name in _FIRST_KNOWN:
        values = [getattr(profile.metadata, name) for profile in profiles]
        known[name] = next((v for v in values if v not in (None, (), {})), values[0])
    paths = dict.fromkeys(path for profile in profiles for path in profile.metadata.paths)
    notes = tuple(note for profile in profiles for note in profile.metadata.notes)
    window = profiles[capture].metadata.window
    return replace(profiles[0].metadata, **known, paths=tuple(paths), notes=notes, window=window)
