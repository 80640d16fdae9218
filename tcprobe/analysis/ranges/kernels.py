"""Add up kernels by the ranges in which they were launched: `range_kernels`, and the notes on what it leaves open."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from msgspec import Struct

from tcprobe.analysis.kernels.launches import UNKNOWN, YES, Launched
from tcprobe.analysis.ranges.nesting import Around, Paths, closed
from tcprobe.grouping import (
    Codes,
    count_by,
    distinct_numbers,
    distinct_rows,
    positions_in,
    ranks,
    ratio_pct,
    rows_by_group,
    sum_by,
    union_by,
)
from tcprobe.schema.columns import FloatArray, IntArray, Names, Table
from tcprobe.schema.profile import Note, Profile, Window
from tcprobe.schema.tables import RANGE_BUCKETS, RANGE_KERNELS

NO_RANGES: Final = "the source records no ranges of the host (NVTX)"
NO_TIMES: Final = "the source does not say when kernels were launched"
MOST_LOST_PCT: Final = 1.0
LEAST_SAID_PCT: Final = 0.05  # is printed as 0.1 %
AT_ONCE: Final = 1 << 19
"""Kernels, each in several ranges, that are united at once: memory is bounded."""
BUCKETS: Final = len(RANGE_BUCKETS) - 1


def build_range_kernels(around: Around, launched: Launched) -> Table:
    """Return the kernels that count, by domain and name of the ranges in which they were launched.

    Args:
        around: the ranges around launches.
        launched: the same launches, classified.
    """
    label, labels = _labels(around)
    kernels = _Counted.of(around, launched)
    columns = _exclusive(kernels, label, len(labels[0])) | _inclusive(kernels, around.paths(label), len(labels[0]))
    columns |= _identity(around, labels, label, closed(around.parent, distinct_numbers(kernels.inner)))
    counted = np.maximum(columns["launches"], np.nan_to_num(columns["inclusive_launches"])) > 0
    table = Table(RANGE_KERNELS, columns).take(counted)
    order = [-np.nan_to_num(table.numbers(c)).astype(np.int64) for c in ("sum_ns", "inclusive_sum_ns")]
    texts = [ranks([name or "" for name in table.names(c).tolist()]) for c in ("bucket", "domain", "name")]
    return table.take(np.lexsort((*reversed(texts), *reversed(order))))


def range_notes(profile: Profile) -> Iterator[Note]:
    """Yield a note for the kernels whose range is not known, and for those that are in none.

    Args:
        profile: with its window, and `range_kernels` where it has ranges.
    """
    if profile.table("ranges") is None:
        return
    lost, share = _lost(profile.require("launches"), profile.metadata.window)
    if share > MOST_LOST_PCT:
        yield Note(
            "no-launch-record",
            f"no launch record: the calls that launched {lost:,} kernels ({share:.1f} % of the kernel time) were not "
            "recorded, so that nothing tells their step, range, op or layer",
            "capture windows and --times slices cut launches off: record without a slice, or with a longer window",
        )
    table = profile.require("range_kernels")
    shares = dict(zip(table.values("bucket"), table.numbers("share_pct").tolist(), strict=True))
    if (outside := shares.get("no enclosing range", 0.0)) >= LEAST_SAID_PCT:
        message = f"no enclosing range: {outside:.1f} % of the kernel time was launched in no range (NVTX)"
        yield Note("no-enclosing-range", message, level="note")


def _lost(launches: Table, window: Window) -> tuple[int, float]:
    """Return how many kernels in the window have no launch record, of whatever step, and their share of its time."""
    start, spent = launches.numbers("start_ns"), launches.numbers("duration_ns")
    within = np.ones(len(launches), np.bool_)
    if window.start_ns is not None and window.end_ns is not None:
        within = (start >= window.start_ns) & (start < window.end_ns)
    lost = within & np.isnan(launches.numbers("launch_ns"))
    share = float(np.nan_to_num(ratio_pct(int(spent[lost].sum()), int(spent[within].sum()))))
    return int(lost.sum()), share


class _Counted(Struct, frozen=True):
    """The launches that count."""

    inner: Codes  # innermost range of each, as `Around` has it
    bucket: Codes  # why it is in none: place in the buckets after the first
    device: Codes  # place of its GPU
    devices: int  # number of GPUs
    # starts, durations: when it ran.
    starts: IntArray
    durations: IntArray
    verdict: Any  # its class
    beside: IntArray  # those that ran beside another one on their GPU: the union of all others is their sum

    @classmethod
    def of(cls, around: Around, launched: Launched) -> _Counted:
        groups = launched.groups
        counts = groups.counted[groups.of_launch]
        rows = slice(None) if counts.all() else np.flatnonzero(counts)
        launches, group = groups.launches, groups.of_launch[rows]
        devices = distinct_numbers(groups.device)
        device, starts = positions_in(groups.device, devices)[group], launches.numbers("start_ns")[rows]
        durations = launches.numbers("duration_ns")[rows]
        return cls(
            around.inner[rows],
            np.isnan(launches.numbers("launch_ns")[rows]).astype(np.int32),
            device,
            len(devices),
            starts,
            durations,
            launched.verdicts[group],
            _overlapping(rows_by_group(device, len(devices)), starts, durations),
        )

    def figures(self, group: Codes, members: tuple[IntArray, IntArray], count: int) -> tuple[IntArray, ...]:
        """Return the number of launches of each of `count` labels, their sum, and their union, summed over GPUs.

        Args:
            group: of each launch; -1 has no label.
            members: the labels of each group, as pairs of a group and a label, each pair once.
            count: of labels.
        """
        (owner, label), groups, beside = members, int(group.max(initial=-1)) + 1, self.beside[group[self.beside] >= 0]
        launches, sums = count_by(group, groups), sum_by(group, self.durations, groups)
        apart = sum_by(group[beside], self.durations[beside], groups)
        total = sum_by(label, sums[owner], count)
        union = total - sum_by(label, apart[owner], count) + self._united(beside, group, members, count)
        return sum_by(label, launches[owner], count), total, union

    def _united(self, rows: IntArray, group: Codes, members: tuple[IntArray, IntArray], count: int) -> IntArray:
        """Return the time during which at least one of these launches ran, by label, of some labels at once."""
        union = np.zeros(count, np.int64)
        if not len(rows):
            return union
        rows = rows[np.argsort(group[rows], kind="stable")]
        sizes = count_by(group[rows], int(group.max()) + 1)
        order = np.argsort(members[1], kind="stable")
        owner, label = members[0][order], members[1][order]
        first, size = (np.cumsum(sizes) - sizes)[owner], sizes[owner]
        batch = np.cumsum(sum_by(label, size, count))[label] // AT_ONCE
        for mine in np.split(np.arange(len(owner)), np.flatnonzero(np.diff(batch)) + 1):
            low, high = int(label[mine[0]]), int(label[mine[-1]]) + 1
            each = np.repeat(mine, size[mine])
            place = np.arange(len(each)) - np.repeat(np.cumsum(size[mine]) - size[mine], size[mine])
            ran = rows[first[each] + place]
            of_device = (label[each] - low) * self.devices + self.device[ran]
            united = union_by(of_device, self.starts[ran], self.durations[ran], (high - low) * self.devices)
            union[low:high] = united.reshape(-1, self.devices).sum(axis=1)
        return union


def _overlapping(by_device: list[IntArray], starts: IntArray, durations: IntArray) -> IntArray:
    found = [np.zeros(0, np.int64)]
    for rows in by_device:
        begun = starts[rows]
        if (begun[1:] < begun[:-1]).any():
            rows = rows[np.argsort(begun, kind="stable")]
            begun = starts[rows]
        until = np.maximum.accumulate(begun + durations[rows])
        beside = np.zeros(len(rows) + 1, np.bool_)
        beside[1:-1] = begun[1:] < until[:-1]
        found.append(rows[beside[:-1] | (np.append(begun[1:], until[-1:]) < begun + durations[rows])])
    return np.concatenate(found)


def _labels(around: Around) -> tuple[Codes, list[IntArray]]:
    """Return the number of domain and name of each range, and both of each number, as ids."""
    ids = [_same(around.ranges.names(column), around.rows) for column in ("domain", "name")]
    labels, label = distinct_rows(*ids)
    return label, labels


def _same(names: Names, rows: IntArray) -> Codes:
    """Return the ids of strings, those of equal ones the same."""
    index: dict[str, int] = {}
    lookup = np.array([index.setdefault(name, i) for i, name in enumerate(names.names)] + [-1], np.int32)
    return lookup[names.ids[rows]]


def _exclusive(kernels: _Counted, label: Codes, count: int) -> dict[str, Any]:
    """Return the figures of launches by the innermost range, those in none in the buckets."""
    own = np.append(label, -1)[kernels.inner]
    own, rows = np.where(own >= 0, own, count + kernels.bucket), count + BUCKETS
    each = distinct_numbers(own)
    launches, sums, union = kernels.figures(own, (each, each), rows)
    on_tc, unknown = (sum_by(own, np.where(kernels.verdict == v, kernels.durations, 0), rows) for v in (YES, UNKNOWN))
    share = ratio_pct(sums, sums.sum())
    return {
        "launches": launches, "sum_ns": sums, "union_ns": union, "tc_ns": on_tc, "unknown_ns": unknown,
        "share_pct": share,
    }  # fmt: skip


def _inclusive(kernels: _Counted, paths: Paths, count: int) -> dict[str, FloatArray]:
    """Return the figures of launches in a range or in one within it: each counts once, however often it recurs."""
    path = paths.of_range[kernels.inner]
    figures = kernels.figures(path, _members(paths, distinct_numbers(path[path >= 0]), count), count)
    names = ("inclusive_launches", "inclusive_sum_ns", "inclusive_union_ns")
    nothing = np.full(BUCKETS, np.nan)
    return {name: np.concatenate([values, nothing]) for name, values in zip(names, figures, strict=True)}


def _members(paths: Paths, used: IntArray, count: int) -> tuple[IntArray, IntArray]:
    """Return each path that is used, with each of `count` labels on it once, ascending by path."""
    owner, at, keys = used, used.astype(np.int32), [np.zeros(0, np.int64)]
    while len(at):
        keys.append(owner * count + paths.alike[at])
        outer = paths.outer[at]
        owner, at = owner[outer >= 0], outer[outer >= 0]
    owner, label = np.divmod(distinct_numbers(np.concatenate(keys)), max(count, 1))
    return owner, label


def _identity(around: Around, labels: list[IntArray], label: Codes, used: IntArray) -> dict[str, Any]:
    """Return what a row is of: domain, name, kind and calls; of the buckets only which they are.

    Args:
        around: the ranges.
        labels: ids of domain and name of each label.
        label: of each range.
        used: ranges in which a launch that counts was made.
    """
    count, none = len(labels[0]), np.full(BUCKETS, -1)
    kinds = around.names("kind")
    least, most = np.full(count, len(kinds.names)), np.full(count, -1)
    np.minimum.at(least, label[used], kinds.ids[used])
    np.maximum.at(most, label[used], kinds.ids[used])
    kind = np.where(least == most, most, -1)  # NA where ranges of a name are of several kinds
    texts = {
        c: Names(np.concatenate([ids, none]), around.ranges.names(c).names)
        for c, ids in (("domain", labels[0]), ("name", labels[1]), ("kind", kind))
    }
    bucket = np.concatenate([np.zeros(count), np.arange(BUCKETS) + 1]).astype(np.int32)
    calls = np.concatenate([count_by(label[used], count), np.full(BUCKETS, np.nan)])
    return {**texts, "bucket": Names(bucket, RANGE_BUCKETS), "calls": calls}
