"""Look up the profiler's own figures, and compare them with ours."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tcprobe.schema.profile import Note, Profile

ROUNDING: Final = 0.051  # DLProf's CSV prints percentages with one decimal
TIME_ROUNDING: Final = 0.001  # of a time: whole nanoseconds in every report

_KERNELS: Final = "all kernels / {} / gpu time (ns)"
_OPS: Final = "all ops / {} / {}"
_EFFICIENCY: Final = "summary report / tensor core kernel utilization %"


@dataclass(frozen=True, slots=True)
class KernelTimes:
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
        for name in names:
            wanted = name.lower()
            if wanted in self._values:
                return self._values[wanted]
            for known, value in self._values.items():
                if known.endswith(f"/ {wanted}"):
                    return value
        return None

    @property
    def kernel_times(self) -> KernelTimes | None:
        """What the summary says of kernels; None where it does not."""
        on_tc, other = (self.get(_KERNELS.format(row)) for row in ("kernels using tc", "all other kernels"))
        return None if on_tc is None or other is None else KernelTimes(on_tc, other)

    @property
    def memory_ns(self) -> float | None:
        """Time of copies and sets."""
        return self.get(_KERNELS.format("memory"))

    @property
    def has_ops(self) -> bool:
        """Whether the source tells ops apart: DLProf's simple mode puts all kernels under one pseudo-op."""
        counts = [self.get(_OPS.format(row, "# ops")) for row in ("all ops",)]
        using = [self.get(_OPS.format(row, "# ops")) for row in ("ops using tc", "all other ops")]
        return any(c is not None and c > 1 for c in (*counts, *using))

    @property
    def capable_ns(self) -> float | None:
        """GPU time of ops that use Tensor Cores or could: a union, memory included."""
        parts = [
            self.get(_OPS.format(r, "gpu time (ns)")) for r in ("ops using tc", "ops eligible for tc but not using")
        ]
        return None if None in parts else sum(p for p in parts if p is not None)

    @property
    def efficiency_pct(self) -> float | None:
        """DLProf's Tensor Core kernel utilization, as it stands."""
        return self.get(_EFFICIENCY, "tensor core kernel efficiency %")

    @property
    def gpu_busy_pct(self) -> float | None:
        """GPU utilization; older versions report the idle share."""
        idle = self.get("summary report / gpu idle %")
        busy = self.get("summary report / gpu utilization %")
        return busy if busy is not None or idle is None else 100.0 - idle


def compare_reported(reported: Reported, ours: dict[str, float | None]) -> Iterator[Note]:
    """Yield a note for each figure in which the profiler and we differ by more than rounding.

    Args:
        reported: the profiler's figures.
        ours: of the same scope: `tc_kernel_time_pct`, `tc_capable_time_pct`, `kernel_time_ns`, `tc_time_ns`.
    """
    times = reported.kernel_times
    pairs = [
        ("tc_capable_time_pct" if reported.has_ops else "tc_kernel_time_pct", reported.efficiency_pct, "%"),
        ("tc_time_ns", times.on_tc if times else None, "ns"),
        ("kernel_time_ns", times.total if times else None, "ns"),
    ]
    for name, theirs, unit in pairs:
        mine = ours.get(name)
        if theirs is None or mine is None:
            continue
        allowed = ROUNDING if unit == "%" else TIME_ROUNDING * max(theirs, mine)
        if abs(theirs - mine) > allowed:
            shown = (f"{theirs:.1f} %", f"{mine:.1f} %") if unit == "%" else (f"{theirs:.0f} ns", f"{mine:.0f} ns")
            yield Note(
                "differs-from-profiler",
                f"{name}: the profiler reports {shown[0]}, its own rows give {shown[1]}",
                "docs/figures.md says how each figure is formed",
            )
