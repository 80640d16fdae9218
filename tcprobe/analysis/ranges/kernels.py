"""Add up kernels by the ranges in which they were launched: `range_kernels`, and the notes on what it leaves open."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tcprobe.analysis.grouping import (
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
from tcprobe.analysis.kernels.launches import UNKNOWN, YES, Launched
from tcprobe.analysis.ranges.around import Around, Paths
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
    own = np.append(label, -1)[kernels.inner]
    own = np.where(own >= 0, own, len(labels[0]) + kernels.bucket)
    beside = kernels.overlapping()
    columns = _exclusive(kernels, own, beside, len(labels[0]) + BUCKETS)
    columns |= _inclusive(kernels, around, label, beside, len(labels[0]))
    columns |= _identity(around, labels, label, around.closed(distinct_numbers(kernels.inner)))
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


@dataclass(frozen=True, slots=True)
class _Counted:
    """The launches that count.

    Attributes:
        inner: innermost range of each, as `Around` has it.
        bucket: why it is in none: place in the buckets after the first.
        device: place of its GPU.
        devices: number of GPUs.
        starts, durations: when it ran.
        verdict: its class.
    """

    inner: Codes
    bucket: Codes
    device: Codes
    devices: int
    starts: IntArray
    durations: IntArray
    verdict: Any

    @classmethod
    def of(cls, around: Around, launched: Launched) -> _Counted:
        groups = launched.groups
        counts = groups.counted[groups.of_launch]
        rows = slice(None) if counts.all() else np.flatnonzero(counts)
        launches, group = groups.launches, groups.of_launch[rows]
        devices = distinct_numbers(groups.device)
        return cls(
            around.inner[rows],
            np.isnan(launches.numbers("launch_ns")[rows]).astype(np.int32),
            positions_in(groups.device, devices)[group],
            len(devices),
            launches.numbers("start_ns")[rows],
            launches.numbers("duration_ns")[rows],
            launched.verdicts[group],
        )

    def united(self, rows: IntArray, group: Codes, count: int) -> IntArray:
        """Return the time during which at least one kernel of each group ran, summed over GPUs.

        Args:
            rows: launches; one may be in several groups.
            group: of each.
            count: of groups.
        """
        of_device = np.where(group >= 0, group * self.devices + self.device[rows], -1)
        each = union_by(of_device, self.starts[rows], self.durations[rows], count * self.devices)
        union: IntArray = each.reshape(count, self.devices).sum(axis=1)
        return union

    def overlapping(self) -> IntArray:
        """Return the launches that ran beside another one on their GPU: the union of all others is their sum."""
        found = []
        for rows in rows_by_group(self.device, self.devices):
            begun = self.starts[rows]
            if (begun[1:] < begun[:-1]).any():
                rows = rows[np.argsort(begun, kind="stable")]
                begun = self.starts[rows]
            until = np.maximum.accumulate(begun + self.durations[rows])
            beside = np.zeros(len(rows) + 1, np.bool_)
            beside[1:-1] = begun[1:] < until[:-1]
            found.append(rows[beside[:-1] | (np.append(begun[1:], until[-1:]) < begun + self.durations[rows])])
        return np.concatenate([np.zeros(0, np.int64), *found])


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


def _exclusive(kernels: _Counted, own: Codes, beside: IntArray, count: int) -> dict[str, Any]:
    """Return the figures of launches by the innermost range; `beside` are those that overlap others."""
    sums = sum_by(own, kernels.durations, count)
    apart = sum_by(own[beside], kernels.durations[beside], count)
    return {
        "launches": count_by(own, count),
        "sum_ns": sums,
        "union_ns": sums - apart + kernels.united(beside, own[beside], count),
        "tc_ns": sum_by(own, np.where(kernels.verdict == YES, kernels.durations, 0), count),
        "unknown_ns": sum_by(own, np.where(kernels.verdict == UNKNOWN, kernels.durations, 0), count),
        "share_pct": ratio_pct(sums, sums.sum()),
    }


def _inclusive(kernels: _Counted, around: Around, label: Codes, beside: IntArray, count: int) -> dict[str, FloatArray]:
    """Return the figures of launches in a range or in one within it: each counts once, however often it recurs."""
    paths = around.paths(label)
    path = paths.of_range[kernels.inner]
    owner, held = _members(paths, distinct_numbers(path[path >= 0]), count)
    launches, sums = count_by(path, len(paths.outer)), sum_by(path, kernels.durations, len(paths.outer))
    whole = sum_by(held, sums[owner], count)
    beside = beside[path[beside] >= 0]
    apart = sum_by(path[beside], kernels.durations[beside], len(paths.outer))
    union = whole - sum_by(held, apart[owner], count) + _united(kernels, beside, path, (owner, held), count)
    found = {
        "inclusive_launches": sum_by(held, launches[owner], count), "inclusive_sum_ns": whole,
        "inclusive_union_ns": union,
    }  # fmt: skip
    nothing = np.full(BUCKETS, np.nan)
    return {name: np.concatenate([values, nothing]) for name, values in found.items()}


def _members(paths: Paths, used: IntArray, count: int) -> tuple[IntArray, IntArray]:
    """Return each path that is used, with each of `count` labels on it once, ascending by path."""
    owner, at = used, paths.outer[used]
    keys = [owner * count + paths.alike[owner]]
    while len(at):
        owner, at = owner[at >= 0], at[at >= 0]
        keys.append(owner * count + paths.alike[at])
        at = paths.outer[at]
    owner, label = np.divmod(distinct_numbers(np.concatenate(keys)), max(count, 1))
    return owner, label


def _united(kernels: _Counted, rows: IntArray, path: Codes, members: tuple[IntArray, IntArray], count: int) -> IntArray:
    """Return the union of launches by label, of some labels at once.

    Args:
        kernels: all that count.
        rows: the launches to unite.
        path: of each launch of all.
        members: paths, and the labels on each.
        count: of labels.
    """
    union = np.zeros(count, np.int64)
    if not len(rows):
        return union
    order = rows[np.argsort(path[rows], kind="stable")]
    (owner, label), sizes = members, count_by(path[rows], int(path.max()) + 1)
    first, size = (np.cumsum(sizes) - sizes)[owner], sizes[owner]
    batch = np.cumsum(sum_by(label, size, count)) // AT_ONCE  # of each label
    for mine in rows_by_group(distinct_rows(batch)[1][label], len(distinct_numbers(batch))):
        each = np.repeat(np.arange(len(mine)), size[mine])
        place = np.arange(len(each)) - np.repeat(np.cumsum(size[mine]) - size[mine], size[mine])
        (seen,), group = distinct_rows(label[mine])
        union[seen] = kernels.united(order[first[mine][each] + place], group[each], len(seen))
    return union


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
