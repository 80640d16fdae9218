"""Look up the profiler's own figures, and compare them with ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from tcprobe.schema.profile import Note, Profile

ROUNDING: Final = 0.051  # DLProf's CSV prints percentages with one decimal
TIME_ROUNDING: Final = 0.001  # of a time: whole nanoseconds in every report
WALL: Final = "summary report / wall clock time (ns)"
ITERATIONS: Final = "iterations / aggregated iterations"
AVERAGE: Final = "iterations / average iteration time (ns)"


class KernelTimes(NamedTuple):
    """Kernel time as the profiler sums it, memory apart, in ns."""

    on_tc: float
    other: float

    @property
    def total(self) -> float:
        """All kernels."""
        return self.on_tc + self.other


class Reported:
    """The `reported` table by metric name; names compare without case."""

    def __init__(self, profile: Profile) -> None:
        table = profile.require("reported")
        pairs = zip(table.values("metric"), table.values("value"), strict=True)
        self._values = {str(name).strip().lower(): float(value) for name, value in pairs if value is not None}

    def __bool__(self) -> bool:
        return bool(self._values)

    def get(self, *names: str) -> float | None:
        """Return the first of the metrics that is there; a name may leave out its section."""
        for name in map(str.lower, names):
            if name in self._values:
                return self._values[name]
            for known, value in self._values.items():
                if known.endswith(f"/ {name}"):
                    return value
        return None

    @property
    def kernel_times(self) -> KernelTimes | None:
        """What the summary says of kernels; None where it does not."""
        names = ("kernels using tc", "all other kernels")
        on_tc, other = (self.get(f"all kernels / {row} / gpu time (ns)") for row in names)
        return None if on_tc is None or other is None else KernelTimes(on_tc, other)

    @property
    def memory_ns(self) -> float | None:
        """Time of copies and sets."""
        return self.get("all kernels / memory / gpu time (ns)")

    @property
    def has_ops(self) -> bool:
        """Whether the source tells ops apart: DLProf's simple mode puts all kernels under one pseudo-op."""
        rows = ("all ops", "ops using tc", "all other ops")
        return any((self.get(f"all ops / {row} / # ops") or 0.0) > 1 for row in rows)

    @property
    def op_times(self) -> tuple[float, float] | None:
        """How long ops use the GPU, and how long it idles within their calls, in ns; None where that is not told."""
        busy, idle = (self.get(f"all iterations / all ops / total gpu {name} (ns)") for name in ("time", "idle"))
        return None if busy is None or idle is None else (busy, idle)

    @property
    def efficiency_pct(self) -> float | None:
        """DLProf's Tensor Core kernel utilization, as it stands."""
        return self.get("summary report / tensor core kernel utilization %", "tensor core kernel efficiency %")

    @property
    def gpu_busy_pct(self) -> float | None:
        """GPU utilization; older versions report the idle share."""
        idle, busy = (self.get(f"summary report / gpu {name} %") for name in ("idle", "utilization"))
        return busy if busy is not None or idle is None else 100.0 - idle


def compare_reported(reported: Reported, ours: Mapping[str, float | None]) -> Iterator[Note]:
    """Yield a note for each figure in which the profiler and we differ by more than rounding.

    Args:
        reported: the profiler's figures.
        ours: of the same scope: `tc_kernel_time_pct`, `tc_capable_time_pct`, `kernel_time_ns`, `tc_time_ns`.
    """
    times = reported.kernel_times
    theirs = {
        "tc_capable_time_pct" if reported.has_ops else "tc_kernel_time_pct": reported.efficiency_pct,
        "tc_time_ns": times and times.on_tc,
        "kernel_time_ns": times and times.total,
    }
    for name, value in theirs.items():
        mine = ours.get(name)
        if value is None or mine is None:
            continue
        share = name.endswith("_pct")
        if abs(value - mine) > (ROUNDING if share else TIME_ROUNDING * max(value, mine)):
            them, us = (f"{each:.1f} %" if share else f"{each:.0f} ns" for each in (value, mine))
            message = f"{name}: the profiler reports {them}, its own rows give {us}"
            yield Note("differs-from-profiler", message, "docs/figures.md says how each figure is formed")
