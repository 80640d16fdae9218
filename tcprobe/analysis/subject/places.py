"""Say where kernels stand: the op that spends most of their time, and its layer."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tcprobe.schema.advice import Where
from tcprobe.schema.columns import FloatArray, Row, Table, Value
from tcprobe.schema.profile import Profile


class Place(NamedTuple):
    """Where kernels stand: the op, its type, its row of `ops` (None without one), and the time in it."""

    where: Where
    op_type: str | None
    row: Row | None
    ns: float


def costliest_op(profile: Profile, kernels: Table, spent: FloatArray) -> Place:
    """Return the op in which kernels spend most of the time; of equal ones the first by name.

    Args:
        profile: for `ops`.
        kernels: rows of `kernels`.
        spent: time of each, ns.
    """
    sums = dict[tuple[str | None, str | None], float]()
    for op, op_type, ns in zip(*(kernels.names(c).tolist() for c in ("op", "op_type")), spent.tolist(), strict=True):
        sums[op, op_type] = sums.get((op, op_type), 0.0) + ns
    (op, op_type), ns = min(sums.items(), key=lambda item: (-item[1], *(name or "" for name in item[0])))
    if op is None:
        return Place(Where(), op_type, None, ns)
    ops = profile.require("ops")
    found = np.flatnonzero(ops.names("op").among(op))
    rows = [row for row in ops.take(found).rows() if op_type is None or row["op_type"] == op_type]
    if not rows:
        return Place(Where(op=op), op_type, None, ns)
    row = rows[0]
    where = Where(_text(row["layer"]), op, _text(row["pass"]), _text(row["source"]) or _text(row["called_from"]))
    return Place(where, op_type, row, ns)


def _text(value: Value) -> str | None:
    return None if value is None else str(value)
