"""What collectives of NCCL a trace holds: which, among how many ranks, how large, and how long nothing hid them."""

from __future__ import annotations

import re
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tcprobe.grouping import count_by, distinct_numbers, merged, sum_by
from tcprobe.jsonfile import whole
from tcprobe.readers.arrays import Ints, distinct_rows
from tcprobe.readers.kineto.columns import BETWEEN, Part
from tcprobe.schema.columns import Table, Value
from tcprobe.schema.tables import MESSAGES

NAMED: Final = re.compile(r"nccl(?:Dev)?Kernel_?([A-Za-z]+)")
"""Kernels of NCCL, by the name of the collective in them."""
BYTES: Final = {
    **dict.fromkeys(("Byte", "Char", "Bool", "Float8_e4m3fn", "Float8_e5m2"), 1),
    **dict.fromkeys(("Half", "BFloat16", "Short"), 2),
    **dict.fromkeys(("Float", "Int"), 4),
    **dict.fromkeys(("Double", "Long"), 8),
}
"""Bytes of an element by the names of c10::ScalarType, with which PyTorch tells the type of a message."""


def read_messages(ran: Part) -> Table:
    """Return the table `messages` of the kernels of a trace; empty where none is NCCL's."""
    mine = ran.texts["name"].each(lambda name: NAMED.match(name) is not None, False).astype(bool)
    rows = np.flatnonzero(mine)
    told, kernel = ran.texts["message"].take(rows), ran.texts["name"].map(_collective).take(rows)
    first, group = distinct_rows(told.ids, kernel.ids)
    spent, hidden = (ran.end - ran.start)[rows], _hidden(ran, mine)[rows]
    sums, alone = (sum_by(group, values, len(first)).tolist() for values in (spent, spent - hidden))
    calls = count_by(group, len(first)).tolist()
    made: list[dict[str, Value]] = [
        {
            **_described(told[row] or "", kernel[row] or ""),
            "launches": calls[number],
            "sum_ns": sums[number],
            "exposed_ns": alone[number],
        }
        for number, row in enumerate(first.tolist())
    ]
    return Table.from_rows(MESSAGES, sorted(made, key=lambda row: (-int(row["sum_ns"] or 0), str(row))))


def _collective(kernel: str) -> str | None:
    found = NAMED.match(kernel)
    return found[1].lower() if found else None


def _described(told: str, kernel: str) -> dict[str, Value]:
    """Return what the program said of a message; of a trace that does not tell, the kernel's name alone says which."""
    name, dtype, group, about, size, sent, received = told.split(BETWEEN) if told else ("",) * 7
    each = BYTES.get(dtype)
    return {
        "collective": name or kernel,
        "group": f"{group} ({about})" if about else group or None,
        "group_size": whole(size),
        "dtype": dtype or None,
        **{
            key: None if each is None or (count := whole(text)) is None else count * each
            for key, text in (("sent_bytes", sent), ("received_bytes", received))
        },
    }


def _hidden(ran: Part, mine: NDArray[np.bool_]) -> Ints:
    """Return the time of each kernel in which another one, that is none of NCCL's, ran on its GPU."""
    hidden, device = np.zeros(ran.rows, np.int64), ran.numbers["device"]
    for number in distinct_numbers(device[mine].astype(np.int64)).tolist():
        here = device == number
        others, rows = np.flatnonzero(here & ~mine), np.flatnonzero(here & mine)
        if not len(others):
            continue
        start, end = merged(ran.start[others], ran.end[others])
        before = np.append(0, np.cumsum(end - start))
        covered = [_covered(ran_at[rows], start, end, before) for ran_at in (ran.start, ran.end)]
        hidden[rows] = covered[1] - covered[0]
    return hidden


def _covered(at: Ints, start: Ints, end: Ints, before: Ints) -> Ints:
    """Return how much of intervals that lie apart has passed at each time; `before` is their length up to each."""
    place = np.searchsorted(start, at, "right")
    last = np.maximum(place - 1, 0)
    return np.where(place > 0, before[last] + np.minimum(at, end[last]) - start[last], 0)
