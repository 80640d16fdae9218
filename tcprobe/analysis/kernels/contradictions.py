"""Note kernels of which name, hardware counters and profiler disagree whether they use Tensor Cores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from tcprobe.analysis.kernels.counters import Counters
from tcprobe.analysis.kernels.verdict import Verdict, classify
from tcprobe.schema.columns import Table, Value
from tcprobe.schema.profile import Note, Profile

_BOTH: Final = {"yes", "no"}


def counter_notes(kernels: Table, profile: Profile) -> Iterator[Note]:
    """Yield notes where hardware counters contradict the names of kernels; the verdict is the counters'."""
    if not (counters := Counters.of(profile)):
        return
    names, bases, uses, evidence = (kernels.values(c) for c in ("kernel", "basis", "uses_tc", "evidence"))
    if not any(str(name) in counters for name in names):
        yield Note("counters-unused", "the hardware counters are of kernels that this profile does not name")
    rows = [i for i, b in enumerate(bases) if b == "counter" and {classify(str(names[i])).uses_tc, uses[i]} == _BOTH]
    if rows:
        share, rows = _costliest(kernels, rows)
        shown = "; ".join(f"{names[i]}: they say {uses[i]} ({evidence[i]})" for i in rows[:3])
        yield Note(
            "counters-contradict-names",
            f"hardware counters class {len(rows)} kernels ({share:.1f} % of the time) otherwise than their names: "
            f"{shown}",
            level="note",
        )


def _costliest(kernels: Table, rows: list[int]) -> tuple[float, list[int]]:
    """Return the share of all kernel time that these rows take in percent, and the rows, costliest first."""
    names, time = kernels.values("kernel"), np.nan_to_num(kernels.numbers("sum_ns"))
    share = 100 * time[rows].sum() / time.sum() if time.sum() else 0.0
    return share, sorted(rows, key=lambda i: (-float(time[i]), str(names[i])))


def reported_notes(table: Table, found: list[Verdict], said: list[Value]) -> tuple[Note, ...]:
    """Return a note where the profiler's own verdicts contradict those of the names.

    Args:
        table: `kernels` as read.
        found: what each name says.
        said: what the profiler says.
    """
    rows = [i for i, (v, s) in enumerate(zip(found, said, strict=True)) if {v.uses_tc, s} == _BOTH]
    if not rows:
        return ()
    names = table.values("kernel")
    share, rows = _costliest(table, rows)
    shown = "; ".join(f"{names[i]}: it says {said[i]}, we {found[i].uses_tc} ({found[i].evidence})" for i in rows[:3])
    message = (
        f"the profiler classes {len(rows)} kernels ({share:.1f} % of the time) otherwise than their names: {shown}"
    )
    return (Note("profiler-contradicted", message, level="note"),)
