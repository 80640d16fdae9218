"""Turn the aggregated reports into tables: kernels from the kernel report, ops and host ops from the detail report.

DLProf's op times are unions over an op's kernels *and copies*; its kernel times are sums, copies apart. The two
are therefore kept in columns of their own, and neither is derived from the other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import numpy as np

from tcprobe.readers.base import NAMELESS
from tcprobe.readers.dlprof.launches import VERDICT, op_labels, verdicts
from tcprobe.readers.dlprof.layout import ITERATION, KERNEL, TENSOR_CORE
from tcprobe.readers.dlprof.report import Report
from tcprobe.readers.dlprof.shapes import dtype_of, shapes_of
from tcprobe.readers.rows import named_kernels
from tcprobe.schema.columns import FloatArray, IntArray, Names, Table
from tcprobe.schema.tables import HOST_OPS, KERNELS, OPS

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
