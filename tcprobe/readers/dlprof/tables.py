"""Turn the aggregated reports into tables: kernels from the kernel report, ops and host ops from the detail report.

DLProf's op times are unions over an op's kernels *and copies*; its kernel times are sums, copies apart. The two
are therefore kept in columns of their own, and neither is derived from the other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from tcprobe.readers.dlprof.launches import EVIDENCE, VERDICT, op_labels
from tcprobe.readers.dlprof.report import Report
from tcprobe.readers.dlprof.shapes import dtype_of, shapes_of
from tcprobe.readers.limits import NAMELESS
from tcprobe.schema.columns import FloatArray, Names, Table
from tcprobe.schema.tables import HOST_OPS, KERNELS, OPS

_LIBRARY_FRAME: Final = re.compile(r"site-packages|dist-packages|/lib/python\d")
_FRAME: Final = re.compile(r"\S.*:\d+")
_PASSES: Final = {"fprop": "forward"}  # bprop does not say which of the two gradients


@dataclass(frozen=True, slots=True)
class OpTimes:
    """Summed kernel times of one op; None where the source does not tell.

    Attributes:
        sum_ns, tc_ns, unknown_ns: all kernels, those that use Tensor Cores, those of unknown class.
        launches: number of kernels launched.
    """

    sum_ns: float | None = None
    tc_ns: float | None = None
    unknown_ns: float | None = None
    launches: float | None = None


NO_KERNELS: Final = OpTimes(0.0, 0.0, 0.0, 0.0)


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
    known = _by_key(detail, keys(detail, report)) if detail is not None else {}
    own = op_labels(report.texts("op name"), report.texts("direction"))
    joined = [known.get(key or "") for key in keys(report, detail)]
    flags = report.flags("uses tc").tolist()
    total = report.numbers("total gpu time ns")
    columns = {
        "kernel": [name or NAMELESS for name in report.texts("kernel name").tolist()],
        "op": [found[0] if found else name for found, name in zip(joined, own, strict=True)],
        "op_type": [found[1] if found else None for found in joined],
        "calls": launch_counts(total, report.numbers("avg gpu time ns")),
        "sum_ns": total,
        "min_ns": report.numbers("min gpu time ns"),
        "max_ns": report.numbers("max gpu time ns"),
        "uses_tc": [VERDICT[flag] for flag in flags],
        "basis": [None if flag < 0 else "reported" for flag in flags],
        "evidence": [EVIDENCE[flag] for flag in flags],
    }
    return Table(KERNELS, columns)


def _by_key(detail: Report, of: list[str | None]) -> dict[str, tuple[str, str | None]]:
    rows = zip(of, labels(detail), detail.texts("op type").tolist(), strict=True)
    return {key: (label, kind) for key, label, kind in rows if key is not None}


def times_by_op(report: Report, time_column: str, detail: Report) -> dict[str | None, OpTimes]:
    """Return the kernel times of each op, summed over the rows of a kernel or iteration report."""
    of = Names.of(keys(report, detail))
    ids, count = np.where(of.ids < 0, len(of.names), of.ids), len(of.names) + 1
    time, flags = np.nan_to_num(report.numbers(time_column)), report.flags("uses tc")
    one_each = report.has("gpu duration ns")
    calls = np.ones(len(report)) if one_each else launch_counts(time, report.numbers("avg gpu time ns"))
    sums = np.bincount(ids, weights=time, minlength=count)
    tc = np.bincount(ids, weights=np.where(flags == 1, time, 0.0), minlength=count)
    unknown = np.bincount(ids, weights=np.where(flags < 0, time, 0.0), minlength=count)
    launches = np.bincount(ids, weights=calls, minlength=count)
    found = (OpTimes(*row) for row in zip(sums.tolist(), tc.tolist(), unknown.tolist(), launches.tolist(), strict=True))
    return dict(zip([*of.names, None], found, strict=True))


def eligible_times(report: Report, detail: Report) -> dict[str | None, OpTimes]:
    """Return the kernel times of the eligible ops alone, from the tensor core report."""
    sums, tc = report.numbers("total gpu time ns"), report.numbers("tc gpu time ns")
    rows = zip(keys(report, detail), sums.tolist(), tc.tolist(), strict=True)
    return {key: OpTimes(total, part, 0.0, None) for key, total, part in rows}


def ops_table(detail: Report, times: Mapping[str | None, OpTimes], complete: bool, by_id: bool) -> Table:
    """Return `ops` from the detail report.

    Args:
        detail: the report.
        times: kernel times by Op ID or Op Name.
        complete: whether an op that `times` lacks launched no kernel.
        by_id: whether `times` is keyed by Op ID.
    """
    of = detail.texts("op id" if by_id else "op name").tolist()
    gpu_ns, flags = detail.numbers("total gpu time ns"), detail.flags("uses tc").tolist()
    told = [
        _times(times.get(key), complete, flag, gpu) for key, flag, gpu in zip(of, flags, gpu_ns.tolist(), strict=True)
    ]
    columns: dict[str, object] = {
        "op": labels(detail),
        "op_type": detail.texts("op type"),
        "pass": [_PASSES.get(d or "") for d in detail.texts("direction").tolist()],
        "calls": detail.numbers("no calls"),
        "tc_capable": [VERDICT[flag] for flag in detail.flags("tc eligible").tolist()],
        "tc_blocker_kind": [
            "none" if flag == 1 and one.tc_ns is None else None for flag, one in zip(flags, told, strict=True)
        ],
        "union_ns": gpu_ns,
        "host_ns": detail.numbers("total cpu time ns"),
        "dtype": [dtype_of(text) for text in detail.texts("data type").tolist()],
        "shapes": detail.texts("input shapes"),
        "called_from": [called_from(text) for text in detail.texts("stack trace").tolist()],
        "basis": ["reported"] * len(detail),
    }
    columns |= {name: [getattr(one, name) for one in told] for name in ("sum_ns", "tc_ns", "unknown_ns", "launches")}
    return Table(OPS, columns)


def _times(found: OpTimes | None, complete: bool, uses_tc: int, gpu_ns: float) -> OpTimes:
    """Say what an op's kernels took; without kernel rows, only that no GPU time is no kernel time."""
    if found is not None:
        return found
    if complete or gpu_ns == 0:
        return NO_KERNELS
    return OpTimes(tc_ns=0.0, unknown_ns=0.0) if uses_tc == 0 else OpTimes()


def called_from(trace: str | None) -> str | None:
    """Return the innermost frame of a stack trace that lies in no library; None where all do."""
    frames = [line.strip() for line in (trace or "").splitlines()]
    own = [frame for frame in frames if _FRAME.fullmatch(frame) and not _LIBRARY_FRAME.search(frame)]
    return own[-1] if own else None


def host_ops_table(detail: Report) -> Table | None:
    """Return `host_ops` from the detail report; None where it lacks a column that the table needs."""
    needed = ("no calls", "total cpu time ns", "min cpu time ns", "max cpu time ns")
    kinds = detail.texts("op type")
    if not detail.has(*needed) or (kinds.ids < 0).any():
        return None
    names = {"calls": needed[0], "sum_ns": needed[1], "min_ns": needed[2], "max_ns": needed[3]}
    shapes = zip(detail.texts("input shapes").tolist(), kinds.tolist(), strict=True)
    columns = {
        "op": labels(detail),
        "op_type": kinds,
        **{name: detail.whole(column) for name, column in names.items()},
        "input_shapes": [shapes_of(text, kind) for text, kind in shapes],
        "profiler_id": detail.texts("op id"),
    }
    return Table(HOST_OPS, columns)
