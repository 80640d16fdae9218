"""Turn the iteration report, one row per launch, into launches, their ops and configurations, and kernels."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tcprobe.readers.arrays import distinct_rows
from tcprobe.readers.dlprof.layout import SIMPLE_OP
from tcprobe.readers.dlprof.report import Report, coalesce
from tcprobe.readers.dlprof.shapes import dtype_of, first_shape, shapes_of
from tcprobe.readers.rows import costliest, named_kernels, rows_as_text, summed
from tcprobe.schema.columns import IntArray, Names, Table
from tcprobe.schema.tables import KERNELS, LAUNCH_CONFIGS, LAUNCHES, OP_DETAILS

NO_STREAM: Final = -1
BACKWARD: Final = "bprop"
_EVIDENCE: Final = {1: "DLProf: Uses TC = yes", 0: "DLProf: Uses TC = no", -1: "DLProf: Uses TC is blank"}
VERDICT: Final = {1: "yes", 0: "no", -1: "unknown"}
_OP_COLUMNS: Final = ("op id", "op name", "op type", "direction", "data type", "input shapes", "output shapes")
_LAUNCH_COLUMNS: Final = ("device id", "long kernel name", "kernel name", "uses tc")
_SIZES: Final = {word: tuple(f"{word} {axis}" for axis in "xyz") for word in ("grid", "block")}


def launch_tables(report: Report) -> list[Table]:
    """Return `launches`, `op_details`, `launch_configs` and `kernels` of an iteration report.

    `kernels` are sums over the launches of each kernel, op and device, as DLProf classes them.

    Raises:
        WrongFormat: a cell that every row needs is blank or no number.
    """
    held = [name for name in (*_LAUNCH_COLUMNS, *_OP_COLUMNS, *_SIZES["grid"], *_SIZES["block"]) if report.has(name)]
    distinct, which = report.distinct(held)
    kernel = named_kernels(coalesce(distinct.texts("long kernel name"), distinct.texts("kernel name")))
    device = distinct.whole("device id") if report.has("device id") else np.zeros(len(distinct), np.int64)
    (op_id, ops), (config_id, configs), uses_tc = _ops(distinct), _configs(distinct), distinct.flags("uses tc")
    duration = report.whole("gpu duration ns")
    launches = {
        "device": device[which],
        "stream": np.full(len(which), NO_STREAM),
        "start_ns": report.whole("gpu start time ns"),
        "duration_ns": duration,
        "kernel": kernel.take(which),
        "op_id": op_id[which],
        "config_id": config_id[which],
        "launch_ns": report.numbers("api call start ns"),
        "iteration": report.numbers("iteration"),
    }
    first, group = distinct_rows(device, kernel.ids, op_id, uses_tc)
    group = group[which]
    config = config_id[which[costliest(group, len(first), duration)]]
    kernels: dict[str, Any] = {
        "device": device[first],
        "kernel": kernel.take(first),
        **{name: _looked_up(ops.names(name), op_id[first]) for name in ("op", "op_type")},
        **summed(group, len(first), duration),
        **verdicts(uses_tc[first].tolist()),
        **{name: _looked_up(configs.names(name), config) for name in _SIZES},
    }
    return [Table(LAUNCHES, launches), ops, configs, Table(KERNELS, kernels)]


def op_labels(name: Names, direction: Names) -> list[str | None]:
    """Return the name of each op; None for the pseudo-op of simple mode, which is none.

    A backward op that shares its name with a forward one is marked: DLProf names both by the module that was called,
    and they must not become one.
    """
    names = name.map(lambda text: "" if text.startswith(SIMPLE_OP) else text).tolist()
    pairs = list(zip(names, direction.tolist(), strict=True))
    forward = {n for n, d in pairs if d != BACKWARD}
    return [f"{n} [{BACKWARD}]" if d == BACKWARD and n in forward else n or None for n, d in pairs]


def _ops(report: Report) -> tuple[IntArray, Table]:
    """Return (row of `op_details` of each row, -1 where it names no op; the table)."""
    columns = {name: report.texts(name) for name in _OP_COLUMNS}
    first, op_id = distinct_rows(*(column.ids for column in columns.values()))
    held = {name: column.take(first) for name, column in columns.items()}
    labels = op_labels(held["op name"], held["direction"])
    inputs, outputs = (
        [told(text, kind) for text, kind in zip(held[name].tolist(), held["op type"].tolist(), strict=True)]
        for name, told in (("input shapes", shapes_of), ("output shapes", first_shape))
    )
    table = {
        "op": [label or "" for label in labels],
        "op_type": held["op type"],
        "dtype": held["data type"].map(dtype_of),
        "input_shapes": inputs,
        "output_shape": outputs,
    }
    named = np.array([label is not None for label in labels], dtype=np.bool_)
    return np.where(named, np.cumsum(named) - 1, -1)[op_id], Table(OP_DETAILS, table).take(named)


def _configs(report: Report) -> tuple[IntArray, Table]:
    """Return (row of `launch_configs` of each row, -1 where the report has none; the table)."""
    if not report.has(*_SIZES["grid"], *_SIZES["block"]):
        return np.full(len(report), -1), Table(LAUNCH_CONFIGS, {})
    sizes = {word: rows_as_text([report.whole(name) for name in names], ",") for word, names in _SIZES.items()}
    first, config_id = distinct_rows(*(texts.ids for texts in sizes.values()))
    return config_id, Table(LAUNCH_CONFIGS, {word: texts.take(first) for word, texts in sizes.items()})


def verdicts(flags: list[int]) -> dict[str, list[str | None]]:
    """Return the columns of `kernels` that say what DLProf says of Tensor Cores: 1, 0, -1 where it says nothing."""
    return {
        "uses_tc": [VERDICT[flag] for flag in flags],
        "basis": [None if flag < 0 else "reported" for flag in flags],
        "evidence": [_EVIDENCE[flag] for flag in flags],
    }


def _looked_up(names: Names, rows: IntArray) -> Names:
    return Names(np.append(names.ids, -1)[rows], names.names)
