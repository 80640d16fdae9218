"""Join page raw and page details of one report: the same launches, with all that either tells of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from msgspec.structs import replace

from tcprobe.errors import UsageError
from tcprobe.readers.ncu.sheet import Metric, Sheet
from tcprobe.readers.one_run import name_one, newest_first, not_one_run
from tcprobe.schema.columns import IntArray


def joined(files: Sequence[Path], sheets: Sequence[Sheet]) -> Sheet:
    """Return the launches of one report; where both pages have a metric, that of page raw counts.

    Raises:
        UsageError: the files are not page raw and page details, or not of one report.
    """
    if sorted(sheet.long for sheet in sheets) != [False, True]:
        raise not_one_run(
            files, "each report of Nsight Compute is read by itself; page raw and page details are of one"
        )
    raw, details = sorted(sheets, key=lambda sheet: sheet.long)
    rows = _rows(files, raw, details)
    added = {
        name: Metric(metric.values[rows], metric.unit)
        for name, metric in details.metrics.items()
        if name not in raw.metrics or (metric.unit and not raw.metrics[name].unit)
    }
    who = {**{name: texts.take(rows) for name, texts in details.who.items()}, **raw.who}
    said = tuple(dict.fromkeys((*raw.said, *details.said)))
    sign = max(raw.sign, details.sign, key=",".__eq__)
    return replace(raw, who=who, metrics={**raw.metrics, **added}, said=said, sign=sign)


def _rows(files: Sequence[Path], raw: Sheet, details: Sheet) -> IntArray:
    """Return the row in page details of each launch of page raw: of its process, with its number."""
    ours, theirs = (
        list(zip(*(s.texts(c).tolist() for c in ("Process ID", "ID")), strict=True)) for s in (raw, details)
    )
    at = {launch: row for row, launch in enumerate(theirs)}
    if sorted(ours, key=str) != sorted(theirs, key=str) or len(at) < len(theirs):
        raise _unlike(
            files, f"one has {len(ours):,} launches, the other {len(theirs):,}, or they are of other processes"
        )
    rows = np.array([at[launch] for launch in ours], np.int64)
    for what in ("Kernel Name", "grid", "block"):
        mine, other = (s.texts(what) if what == "Kernel Name" else s.sizes(what) for s in (raw, details))  # type: ignore[arg-type]
        for (_, number), one, two in zip(ours, mine.tolist(), other.take(rows).tolist(), strict=True):
            if one != two and None not in (one, two):
                raise _unlike(files, f"launch {number} has {what.lower()} {one} in one and {two} in the other")
    return rows


def _unlike(files: Sequence[Path], why: str) -> UsageError:
    names = " and ".join(path.name for path in files)
    said = f"{files[0].parent}: {names} are not page raw and page details of one report: {why}"
    return UsageError(said, name_one(newest_first(set(files))))
