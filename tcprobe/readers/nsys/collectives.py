"""The calls in which the processes of a job wait for one another, by the names that MPI gives its ranges."""

from __future__ import annotations

from typing import Final

import numpy as np

from tcprobe.readers.nsys.columns import decoded, read_columns
from tcprobe.readers.nsys.opening import Database
from tcprobe.schema.columns import Names, Table
from tcprobe.schema.tables import COLLECTIVES

STRINGS: Final = "StringIds"
EVENTS: Final = ("NVTX_EVENTS", "MPI_COLLECTIVES_EVENTS")
"""Where nsys keeps them: as ranges of NVTX, in later versions in a table of their own."""
WAIT_FOR_ALL: Final = frozenset(
    f"MPI_{name}"
    for name in (
        *("Allreduce", "Barrier", "Allgather", "Allgatherv", "Alltoall", "Alltoallv", "Alltoallw"),
        *("Reduce_scatter", "Reduce_scatter_block"),
    )
)
"""No process leaves these before all have come: what each gets depends on what all bring (MPI 4.1, chapter 6)."""


def read_collectives(database: Database, origin: int) -> Table:
    """Return the collectives of a recording in the order in which they began; empty where it has none.

    Args:
        database: open.
        origin: start of the capture on the clock of the file.
    """
    named = {}
    if database.has(STRINGS, "id", "value"):
        query = f"SELECT [id], [value] FROM [{STRINGS}] NOT INDEXED WHERE [value] GLOB 'MPI_*'"
        said = ((number, decoded(text)) for number, text in database.connection.execute(query))
        named = {number: text for number, text in said if text in WAIT_FOR_ALL}
    listed = ", ".join(str(int(number)) for number in named)
    where = f"[textId] IN ({listed}) AND [end] >= [start]"
    tables = [one for one in EVENTS if listed and database.has(one, "start", "end", "textId")]
    parts = [read_columns(database, one, ("start", "end", "textId"), where) for one in tables]
    start, end, text = (
        np.concatenate([np.zeros(0, np.int64), *(part[name] for part in parts)]) for name in ("start", "end", "textId")
    )
    order = np.argsort(start, kind="stable")
    place = {number: at for at, number in enumerate(named)}
    names = Names(np.array([place[number] for number in text[order].tolist()], np.int64), list(named.values()))
    columns = {"name": names, "start_ns": start[order] - origin, "duration_ns": (end - start)[order]}
    return Table(COLLECTIVES, columns)
