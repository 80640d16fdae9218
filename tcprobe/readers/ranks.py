"""Join what several hosts or ranks of one run recorded: their GPUs are numbered through."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from tcprobe.schema.columns import Row, Table, concatenate
from tcprobe.schema.profile import Metadata, Note, Profile
from tcprobe.schema.tables import HOST_OPS, TABLES

# What ran on a GPU or was called for it; of step marks, graph and steps all ranks have the same.
BESIDE: Final = ("launches", "launch_configs", "op_details", "memory_ops", "ranges", "threads", "devices", "host_ops")
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
