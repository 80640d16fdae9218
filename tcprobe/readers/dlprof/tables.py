"""Turn DLProf's reports into tables, and the shapes and dtypes that it prints into those of our tables.

The iteration report, one row per launch, gives launches, their ops and configurations; the kernel report kernels, the
detail report ops and host ops.

DLProf's op times are unions over an op's kernels *and copies*; its kernel times are sums, copies apart. The two
are therefore kept in columns of their own, and neither is derived from the other.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import numpy as np

from tcprobe.readers.arrays import distinct_rows
from tcprobe.readers.dlprof.layout import ITERATION, KERNEL, SIMPLE_OP, TENSOR_CORE
from tcprobe.readers.dlprof.report import Report, coalesce
from tcprobe.readers.rows import costliest, named_kernels, rows_as_text, summed
from tcprobe.schema.columns import FloatArray, IntArray, Names, Table
from tcprobe.schema.tables import HOST_OPS, KERNELS, LAUNCH_CONFIGS, LAUNCHES, NAMELESS, OP_DETAILS, OPS

Shape: TypeAlias = list[int]

_SHAPE: Final = re.compile(r"<([^<>]*)>")
_LABELLED: Final = re.compile(r"\s*([A-Z]):([0-9]{1,15})\s*")
# NVIDIA TensorFlow's NVTX ranges spell bfloat16 so
_DTYPES: Final = {"bfloat32": "bfloat16", "half": "float16", "float": "float32", "double": "float64"}
# DLProf prints convolutions channels first, filters K C R S; TensorFlow's arithmetic takes N H W C and R S C K.
_TENSORFLOW_ORDER: Final = {"NCHW": "NHWC", "KCRS": "RSCK", "NKPQ": "NPQK"}
_TENSORFLOW_FORWARD: Final = re.compile(r"_?(?:Fused)?Conv2D")
_TENSORFLOW_CONV: Final = re.compile(r"(?>\w*?Conv[23]D)\w*+")


def dtype_of(text: str | None) -> str | None:
    """Return the contract's dtype of a Data Type cell; several are joined by +."""
    names = [_DTYPES.get(part.lower(), part) for part in re.split(r"[,;+\s]+", text or "") if part]
    return "+".join(dict.fromkeys(names)) or None


def shapes_of(text: str | None, op_type: str | None) -> str | None:
    """Return the contract's JSON list of shapes of an Input Shapes or Output Shapes cell.

    Labelled shapes of TensorFlow's Conv2D are put into TensorFlow's order of dimensions; labelled shapes of its
    other convolutions are not told, for which operand stands where is not known.

    Args:
        text: ``<N:32, C:3, H:32, W:32>; <K:6, C:3, R:3, S:3>; <6>``, or ``name: <64, 8>, name: <>``.
        op_type: type of the op.

    Returns:
        A list with null for a shape that is not told (DLProf prints a scalar as ``<0>``); None without any.
    """
    found = [_dimensions(match) for match in _SHAPE.findall(text or "")]
    if not found:
        return None
    shapes = [_ordered(labels, sizes, op_type or "") for labels, sizes in found]
    return None if all(shape is None for shape in shapes) else json.dumps(shapes)


def first_shape(text: str | None, op_type: str | None) -> str | None:
    """Return the first shape of a cell as a JSON list; None where it is not told."""
    shapes = json.loads(shapes_of(text, op_type) or "[]")
    return json.dumps(shapes[0]) if shapes and shapes[0] is not None else None


def _dimensions(inner: str) -> tuple[str, Shape | None]:
    """Return the labels (empty without) and sizes of one shape."""
    parts = [part for part in inner.split(",") if part.strip()]
    labelled = [_LABELLED.fullmatch(part) for part in parts]
    if parts and all(labelled):
        return "".join(m[1] for m in labelled if m), [int(m[2]) for m in labelled if m]
    plain = [part.strip() for part in parts]
    if plain == ["0"] or not all(re.fullmatch(r"[0-9]{1,15}", part) for part in plain):
        return "", None
    return "", [int(part) for part in plain]


def _ordered(labels: str, sizes: Shape | None, op_type: str) -> Shape | None:
    if sizes is None or not labels or not _TENSORFLOW_CONV.fullmatch(op_type):
        return sizes
    order = _TENSORFLOW_ORDER.get(labels) if _TENSORFLOW_FORWARD.fullmatch(op_type) else None
    return None if order is None else [sizes[labels.index(label)] for label in order]


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


_LIBRARY_FRAME: Final = re.compile(r"site-packages|dist-packages|/lib/python\d")
_FRAME: Final = re.compile(r"\S.*:\d+")
_TIMES: Final = {"sum": "total", "min": "min", "max": "max"}
_PASSES: Final = {"fprop": "forward"}  # bprop does not say which of the two gradients


def keys(report: Report, other: Report | None) -> list[str | None]:
    """Return what joins the ops of two reports: the Op ID, or the Op Name where one has no ids."""
    by_id = report.has("op id") and (other is None or other.has("op id"))
    return report.texts("op id" if by_id else "op name").tolist()


def labels(detail: Report) -> list[str]:
    """Return the name of each op of the detail report."""
    names = op_labels(detail.texts("op name"), detail.texts("direction"))
    return [name or op_id or NAMELESS for name, op_id in zip(names, detail.texts("op id").tolist(), strict=True)]


def launch_counts(total: FloatArray, mean: FloatArray) -> FloatArray:
    """Return how many launches a total and a mean of one decimal stand for; NaN where they leave a doubt."""
    with np.errstate(all="ignore"):
        count = np.round(total / mean)
        doubt = count * 0.05 / mean
        known = (count >= 1) & (doubt < 0.5) & (np.abs(total / count - mean) <= 0.0501)
    return np.where(known, count, np.nan)


def kernels_table(report: Report, detail: Report | None) -> Table:
    """Return `kernels` from the kernel report: one row per kernel and op, summed over devices.

    Raises:
        WrongFormat: a figure is damaged.
    """
    known: dict[str | None, tuple[str, str | None]] = {}
    if detail is not None:
        rows = zip(labels(detail), detail.texts("op type").tolist(), strict=True)
        known = dict(zip(keys(detail, report), rows, strict=True))
    own = op_labels(report.texts("op name"), report.texts("direction"))
    found = [known.get(key) if key else None for key in keys(report, detail)]
    total = report.numbers("total gpu time ns")
    columns: dict[str, object] = {
        "kernel": named_kernels(report.texts("kernel name")),
        "op": [one[0] if one else name for one, name in zip(found, own, strict=True)],
        "op_type": [one[1] if one else None for one in found],
        "calls": launch_counts(total, report.numbers("avg gpu time ns")),
        "sum_ns": total,
        "min_ns": report.numbers("min gpu time ns"),
        "max_ns": report.numbers("max gpu time ns"),
        **verdicts(report.flags("uses tc").tolist()),
    }
    return Table(KERNELS, columns)


def ops_table(detail: Report, reports: Mapping[str, Report]) -> Table:
    """Return `ops` from the detail report, with kernel times from the richest of the others that names kernels."""
    flags, gpu_ns = detail.flags("uses tc"), detail.numbers("total gpu time ns")
    for kind, column in ((ITERATION, "gpu duration ns"), (KERNEL, "total gpu time ns")):
        if len(reports.get(kind, ())):
            times = _kernel_times(reports[kind], column, detail)
            break
    else:
        times = np.full((4, len(detail)), np.nan)
        times[1:3, flags == 0] = 0.0
        times[:, gpu_ns == 0] = 0.0  # without kernel rows, only no GPU time is no kernel time
        if TENSOR_CORE in reports:
            _fill_eligible(times, reports[TENSOR_CORE], detail)
    columns: dict[str, object] = {
        "op": labels(detail),
        "op_type": detail.texts("op type"),
        "pass": detail.texts("direction").map(_PASSES.get),
        "calls": detail.numbers("no calls"),
        "tc_capable": [VERDICT[flag] for flag in detail.flags("tc eligible").tolist()],
        "tc_blocker_kind": ["none" if no_time else None for no_time in (flags == 1) & np.isnan(times[1])],
        "union_ns": gpu_ns,
        "host_ns": detail.numbers("total cpu time ns"),
        "dtype": detail.texts("data type").map(dtype_of),
        "shapes": detail.texts("input shapes"),
        "called_from": detail.texts("stack trace").map(called_from),
        "basis": ["reported"] * len(detail),
        **dict(zip(("sum_ns", "tc_ns", "unknown_ns", "launches"), times, strict=True)),
    }
    return Table(OPS, columns)


def _groups(report: Report, detail: Report) -> tuple[IntArray, IntArray, int]:
    """Return which op each row of a report is of and each of the detail report, and how many ops there are."""
    ours = keys(detail, report)
    ops = Names.of([*ours, *keys(report, detail)])
    ids = np.where(ops.ids < 0, len(ops.names), ops.ids).astype(np.int64)
    return ids[len(ours) :], ids[: len(ours)], len(ops.names) + 1


def _kernel_times(report: Report, time_column: str, detail: Report) -> FloatArray:
    """Return for each op the time of its kernels, that of Tensor Core ones, of unknown ones, and its launches."""
    ids, ours, count = _groups(report, detail)
    time, flags = np.nan_to_num(report.numbers(time_column)), report.flags("uses tc")
    one_each = report.has("gpu duration ns")
    calls = np.ones(len(report)) if one_each else launch_counts(time, report.numbers("avg gpu time ns"))
    parts = (time, np.where(flags == 1, time, 0.0), np.where(flags < 0, time, 0.0), calls)
    return np.stack([np.bincount(ids, weights=part, minlength=count)[ours] for part in parts])


def _fill_eligible(times: FloatArray, report: Report, detail: Report) -> None:
    """Fill in the times of the eligible ops, which alone the tensor core report holds."""
    ids, ours, count = _groups(report, detail)
    row = np.full(count, -1)
    row[ids] = np.arange(len(ids))
    listed, row = row[ours] >= 0, row[ours]
    for place, values in enumerate((report.numbers("total gpu time ns"), report.numbers("tc gpu time ns"))):
        times[place, listed] = values[row[listed]]
    times[2, listed], times[3, listed] = 0.0, np.nan


def called_from(trace: str) -> str | None:
    """Return the innermost frame of a stack trace that lies in no library; None where all do."""
    frames = [line.strip() for line in trace.splitlines()]
    own = [frame for frame in frames if _FRAME.fullmatch(frame) and not _LIBRARY_FRAME.search(frame)]
    return own[-1] if own else None


def host_ops_table(detail: Report) -> Table | None:
    """Return `host_ops` from the detail report; None where it lacks a column that the table needs."""
    names = {"calls": "no calls", **{f"{one}_ns": f"{word} cpu time ns" for one, word in _TIMES.items()}}
    kinds = detail.texts("op type")
    if not detail.has(*names.values()) or (kinds.ids < 0).any():
        return None
    shapes = zip(detail.texts("input shapes").tolist(), kinds.tolist(), strict=True)
    columns = {
        "op": labels(detail),
        "op_type": kinds,
        **{name: detail.whole(column) for name, column in names.items()},
        "input_shapes": [shapes_of(text, kind) for text, kind in shapes],
        "profiler_id": detail.texts("op id"),
    }
    return Table(HOST_OPS, columns)
