"""Turn the iteration report, one row per launch, into launches, their ops and configurations, and kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tcprobe.readers.arrays import distinct_rows
from tcprobe.readers.dlprof.layout import SIMPLE_OP
from tcprobe.readers.dlprof.report import Report, coalesce
from tcprobe.readers.dlprof.shapes import dtype_of, first_shape, shapes_of
from tcprobe.readers.rows import named_kernels
from tcprobe.schema.columns import FloatArray, IntArray, Names, Table
from tcprobe.schema.tables import KERNELS, LAUNCH_CONFIGS, LAUNCHES, OP_DETAILS

NO_STREAM: Final = -1
BACKWARD: Final = "bprop"
_EVIDENCE: Final = {1: "DLProf: Uses TC = yes", 0: "DLProf: Uses TC = no", -1: "DLProf: Uses TC is blank"}
VERDICT: Final = {1: "yes", 0: "no", -1: "unknown"}
_OP_COLUMNS: Final = ("op id", "op name", "op type", "direction", "data type", "input shapes", "output shapes")
_LAUNCH_COLUMNS: Final = ("device id", "long kernel name", "kernel name", "uses tc")
_CONFIG_COLUMNS: Final = tuple(f"{word} {axis}" for word in ("grid", "block") for axis in "xyz")


class Rows(Struct, frozen=True):
    """The iteration report: times of each launch, and what they are launches of."""

    # start_ns, duration_ns: as in the contract of `launches`.
    start_ns: IntArray
    duration_ns: IntArray
    # iteration, launch_ns: NaN where unknown.
    iteration: FloatArray
    launch_ns: FloatArray
    which: IntArray  # of each launch, its place in the columns below, which hold each distinct one once
    device: IntArray  # as in the contract of `launches`
    kernel: Names  # full name where the report has it, else the short one
    op_id: IntArray  # row of `ops`; -1 where the report names no op
    config_id: IntArray  # row of `configs`; -1 where the report has none
    uses_tc: NDArray[np.int8]  # 1, 0, -1 for unknown, as DLProf says
    ops: Table  # one row per distinct op
    configs: Table  # one row per distinct launch configuration

    def launches(self) -> Table:
        """Return the `launches` table."""
        columns = {
            "device": self.device[self.which],
            "stream": np.full(len(self.which), NO_STREAM, np.int64),
            "start_ns": self.start_ns,
            "duration_ns": self.duration_ns,
            "kernel": self.kernel.take(self.which),
            "op_id": self.op_id[self.which],
            "config_id": self.config_id[self.which],
            "launch_ns": self.launch_ns,
            "iteration": self.iteration,
        }
        return Table(LAUNCHES, columns)


def read_rows(report: Report) -> Rows:
    """Decode an iteration report.

    Raises:
        WrongFormat: a cell that every row needs is blank or no number.
    """
    held = [name for name in (*_LAUNCH_COLUMNS, *_OP_COLUMNS, *_CONFIG_COLUMNS) if report.has(name)]
    distinct, which = report.distinct(held)
    long_name, short_name = distinct.texts("long kernel name"), distinct.texts("kernel name")
    op_id, ops = _ops(distinct)
    config_id, configs = _configs(distinct)
    device = distinct.whole("device id") if report.has("device id") else np.zeros(len(distinct), np.int64)
    return Rows(
        start_ns=report.whole("gpu start time ns"),
        duration_ns=report.whole("gpu duration ns"),
        iteration=report.numbers("iteration"),
        launch_ns=report.numbers("api call start ns"),
        which=which,
        device=device,
        kernel=named_kernels(coalesce(long_name, short_name)),
        op_id=op_id,
        config_id=config_id,
        uses_tc=distinct.flags("uses tc"),
        ops=ops,
        configs=configs,
    )


def op_labels(name: Names, direction: Names) -> list[str | None]:
    """Return the name of each op; None for the pseudo-op of simple mode, which is none.

    A backward op that shares its name with a forward one is marked: DLProf names both by the module that was called,
    and they must not become one.
    """
    name = Names(name.ids, [n if not n.startswith(SIMPLE_OP) else "" for n in name.names])
    forward = {n for n, d in zip(name.tolist(), direction.tolist(), strict=True) if d != BACKWARD}
    pairs = zip(name.tolist(), direction.tolist(), strict=True)
    return [f"{n} [{BACKWARD}]" if d == BACKWARD and n in forward else n or None for n, d in pairs]


def _ops(report: Report) -> tuple[IntArray, Table]:
    columns = {name: report.texts(name) for name in _OP_COLUMNS}
    first, op_id = distinct_rows(*(column.ids for column in columns.values()))
    held = {name: column.take(first) for name, column in columns.items()}
    kinds = held["op type"].tolist()
    labels = op_labels(held["op name"], held["direction"])

    def each(name: str, told: Callable[[str | None, str | None], str | None]) -> list[str | None]:
        return [told(text, kind) for text, kind in zip(held[name].tolist(), kinds, strict=True)]

    table = {
        "op": [label or "" for label in labels],
        "op_type": held["op type"],
        "dtype": [dtype_of(text) for text in held["data type"].tolist()],
        "input_shapes": each("input shapes", shapes_of),
        "output_shape": each("output shapes", first_shape),
    }
    named = np.array([label is not None for label in labels], dtype=np.bool_)
    row = np.where(named, np.cumsum(named) - 1, -1)
    return row[op_id].astype(np.int64) if len(row) else op_id, Table(OP_DETAILS, table).take(named)


def _configs(report: Report) -> tuple[IntArray, Table]:
    grid, block = (_triple(report, word) for word in ("grid", "block"))
    if grid is None or block is None:
        return np.full(len(report), -1, np.int64), Table(LAUNCH_CONFIGS, {})
    first, config_id = distinct_rows(*grid, *block)
    return config_id, Table(LAUNCH_CONFIGS, {"grid": _joined(grid, first), "block": _joined(block, first)})


def _triple(report: Report, word: str) -> tuple[IntArray, ...] | None:
    names = [f"{word} {axis}" for axis in "xyz"]
    return tuple(report.whole(name) for name in names) if report.has(*names) else None


def _joined(axes: tuple[IntArray, ...], rows: IntArray) -> list[str | None]:
    return [",".join(str(int(axis[row])) for axis in axes) for row in rows]


def verdicts(flags: list[int]) -> dict[str, list[str | None]]:
    """Return the columns of `kernels` that say what DLProf says of Tensor Cores: 1, 0, -1 where it says nothing."""
    return {
        "uses_tc": [VERDICT[flag] for flag in flags],
        "basis": [None if flag < 0 else "reported" for flag in flags],
        "evidence": [_EVIDENCE[flag] for flag in flags],
    }


def kernels_of(rows: Rows) -> Table:
    """Return the `kernels` table: sums over the launches of each kernel, op and device, as DLProf classes them."""
    first, group = distinct_rows(rows.device, rows.kernel.ids, rows.op_id, rows.uses_tc)
    count, group = len(first), group[rows.which]
    ops, flags = rows.op_id[first], rows.uses_tc[first].tolist()
    shortest = np.full(count, np.iinfo(np.int64).max)
    longest = np.zeros(count, np.int64)
    np.minimum.at(shortest, group, rows.duration_ns)
    np.maximum.at(longest, group, rows.duration_ns)
    costliest = np.zeros(count, np.int64)
    row = np.flatnonzero(rows.duration_ns == longest[group])
    costliest[group[row]] = rows.config_id[rows.which[row]]  # of launches that took as long, the last
    columns: dict[str, object] = {
        "device": rows.device[first],
        "kernel": rows.kernel.take(first),
        "op": _looked_up(rows.ops.names("op"), ops),
        "op_type": _looked_up(rows.ops.names("op_type"), ops),
        "calls": np.bincount(group, minlength=count).astype(np.float64),
        "sum_ns": np.bincount(group, weights=rows.duration_ns, minlength=count),
        "min_ns": shortest.astype(np.float64),
        "max_ns": longest.astype(np.float64),
        **verdicts(flags),
        "block": _looked_up(rows.configs.names("block"), costliest),
        "grid": _looked_up(rows.configs.names("grid"), costliest),
    }
    return Table(KERNELS, columns)


def _looked_up(names: Names, rows: IntArray) -> Names:
    ids = np.concatenate([names.ids, np.array([-1], np.int32)])
    return Names(ids[rows], names.names)
