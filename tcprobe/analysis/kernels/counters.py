"""Read hardware counters: whether a kernel executed Tensor Core instructions.

Names are those of Nsight Compute (``sm__inst_executed_pipe_tensor.sum``). Three things keep a counter from being proof:
GA100 and GH100 execute HFMA2, an instruction of the CUDA cores, on the tensor pipe, so that its activity alone proves
nothing there; a counter of one type of instruction that is 0 says nothing of the others; and Blackwell has a second
pipe beside the tensor pipe. docs/classification.md says what is proof of what.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal, TypeAlias

import numpy as np
from msgspec import Struct

from tcprobe.analysis.kernels.verdict import Verdict, classify
from tcprobe.hardware import Capability
from tcprobe.schema.columns import Table, Value
from tcprobe.schema.profile import Note, Profile

Configuration: TypeAlias = tuple[Value, Value]
"""Grid and block; None where not known."""
CounterReadings: TypeAlias = Mapping[str, tuple[float, str]]
"""Metric -> value and unit, of one configuration."""

LEAST_PCT: Final = 0.1  # of the peak: below, a pipe's share may come from what ran beside the kernel
SURE_PCT: Final = 20.0  # HFMA2 reached 7.1 % of the tensor pipe's peak in bfloat16 element-wise kernels of an H100
WITHOUT_HFMA2: Final = frozenset({(7, 0), (7, 2), (7, 5), (8, 6), (8, 7), (8, 9)})
SECOND_PIPE: Final = (10, 0)  # from here on, UTCMMA executes on pipe `tc`
DOUBLE: Final = frozenset({(8, 0), (9, 0), (10, 0), (10, 3)})
SINCE: Final[dict[str, Capability]] = {
    "fp16": (7, 0), "int8": (7, 2), "bf16": (8, 0), "tf32": (8, 0), "fp8": (8, 9), "fp4": (10, 0),
}  # fmt: skip
"""Operand type -> the first GPUs whose Tensor Cores take it (CUDA C++ Programming Guide, wmma and PTX ISA, mma)."""
_METRIC: Final = re.compile(r"(?:sm|smsp)__(?P<stem>\w+)(?:\.(?P<rollup>sum|avg|max)(?:\.(?P<per>[\w.]+))?)?")
_STEM: Final = re.compile(
    r"(?P<ops>ops_path_tensor\w*)|(?:inst_executed_)?pipe_(?P<pipe>tensor|tc)(?:_(?:op|type)_(?P<types>\w+?))?(?:_cycles_active)?"
)
_SOURCE: Final = re.compile(r"(?:^|_)src_([a-z]+\d+)")


class CounterVerdict(Struct, frozen=True):
    """What the counters of a kernel prove, with the counter that proves it."""

    uses_tc: Literal["yes", "no"]
    evidence: str


class _Reading(Struct, frozen=True):
    """One counter that is about Tensor Cores."""

    # metric, value, unit: as recorded.
    metric: str
    value: float
    unit: str
    percent: bool  # the value is a share of the peak
    pipe: str | None  # tensor or tc; None where it counts operations
    types: frozenset[str]  # instructions that it counts (hmma, imma, dmma, hgmma, hfma2); empty where all
    source: str | None  # operand type of the operations that it counts

    def __str__(self) -> str:
        return f"{self.metric} {self.value:,.6g} {self.unit}".rstrip()

    @property
    def shared(self) -> bool:
        """Whether HFMA2 counts too, on a GPU that executes it on the tensor pipe."""
        return self.pipe == "tensor" and self.types <= {"hmma"}

    def proves_use(self, apart: bool) -> bool:
        """Return whether it is more than what runs without Tensor Cores; `apart`: HFMA2 runs elsewhere."""
        if "hfma2" in self.types or (self.shared and not apart and not self.percent):
            return False
        least = SURE_PCT if self.shared and not apart else LEAST_PCT
        return self.value >= least if self.percent else self.value > 0


def judge_counters(readings: CounterReadings, capability: Capability | None) -> CounterVerdict | None:
    """Return what the counters of one configuration prove on a GPU; None where they prove nothing.

    Args:
        readings: of all its counters, those that are not about Tensor Cores too.
        capability: compute capability; None counts as a GPU of which nothing is known.
    """
    found = list(_about_tensor_cores(readings))
    apart = capability in WITHOUT_HFMA2
    counts, shares = [r for r in found if not r.percent], [r for r in found if r.percent]
    counted = next((r for r in counts if r.proves_use(apart)), None)
    if counted is not None:
        return CounterVerdict("yes", str(counted))
    idle = [r for r in counts if r.value == 0]
    if capability is not None and _covers(idle, capability):
        # A share may come from HFMA2 or what ran beside the kernel; from this much on, something was not counted.
        return None if any(r.value >= SURE_PCT and (apart or not r.shared) for r in shares) else _none_used(idle)
    sure = next((r for r in shares if r.proves_use(apart)), None) or _beyond_hfma2(counts)
    if sure is not None:
        return CounterVerdict("yes", str(sure))
    idle = [r for r in found if r.value == 0]
    return _none_used(idle) if capability is not None and _covers(idle, capability) else None


def _none_used(idle: Sequence[_Reading]) -> CounterVerdict:
    """Return the verdict that names the counter that says most: of the whole pipe, else of operations."""
    widest = min(idle, key=lambda r: (bool(r.types), r.pipe is None))
    more = f" and {len(idle) - 1} more of 0" if len(idle) > 1 else ""
    return CounterVerdict("no", f"{widest}{more}")


def _about_tensor_cores(readings: CounterReadings) -> Iterator[_Reading]:
    for metric, (value, unit) in sorted(readings.items()):
        found = _METRIC.fullmatch(metric)
        per = (found and found["per"]) or ""
        stem = _STEM.fullmatch(found["stem"]) if found and not per.startswith("peak_sustained") else None
        if stem is None or value != value:
            continue
        types = frozenset((stem["types"] or "").split("_")) - {"", "type"}
        source = _SOURCE.search(stem["ops"] or "")
        percent = per.startswith("pct_of_peak")
        if percent and found and found["rollup"] == "max":
            continue  # of the busiest SM: a kernel of few cycles showed 126 % with 28 instructions in all
        yield _Reading(metric, value, unit, percent, stem["pipe"], types, source[1] if source else None)


def _beyond_hfma2(found: Sequence[_Reading]) -> _Reading | None:
    """Return a count of tensor instructions that exceeds that of HFMA2 among them."""
    counts = [r for r in found if r.metric.startswith("sm__inst_executed") and ".sum" in r.metric]
    hfma2 = max((r.value for r in counts if "hfma2" in r.types), default=None)
    return next((r for r in counts if r.shared and hfma2 is not None and r.value > hfma2), None)


def _covers(idle: Sequence[_Reading], capability: Capability) -> bool:
    """Return whether counters that are 0 leave no Tensor Core instruction of this GPU out."""
    if not idle:  # of a GPU without Tensor Cores nothing about them is counted, nor to be
        return False
    double = {"dmma"} if capability in DOUBLE else set[str]()
    sources = {r.source for r in idle if r.pipe is None}
    needed = {name for name, since in SINCE.items() if capability >= since} | ({"fp64"} if double else set())
    if None in sources or sources >= needed:
        return True
    if capability >= SECOND_PIPE and not any(r.pipe == "tc" and not r.types for r in idle):
        return False
    tensor = [r for r in idle if r.pipe == "tensor"]
    types = {name for r in tensor for name in r.types}
    narrow = {"hmma"} | ({"imma"} if capability > (7, 0) else set())
    grouped = {"hgmma"} if capability == (9, 0) and "gmma" not in types else set[str]()
    return any(not r.types for r in tensor) or types >= narrow | double | grouped


_MEMORY: Final = (
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed",
)
"""Throughput of the device's memory; Nsight Compute names it in either way."""


class Counters:
    """The counters of a profile, by kernel and configuration."""

    def __init__(self, table: Table) -> None:
        self._rows: dict[str, dict[Configuration, list[tuple[Value, str, float, str]]]] = {}
        names = ("kernel", "grid", "block", "device", "metric", "value", "unit")
        columns = [table.values(name) for name in names]
        for kernel, grid, block, device, metric, value, unit in zip(*columns, strict=True):
            if value is not None:
                rows = self._rows.setdefault(str(kernel), {}).setdefault((grid, block), [])
                rows.append((device, str(metric), float(value), str(unit or "")))

    @classmethod
    def of(cls, profile: Profile) -> Counters:
        """Collect from `kernel_counters`; none where the profile has no such table."""
        return cls(profile.require("kernel_counters"))

    def __bool__(self) -> bool:
        return bool(self._rows)

    def __contains__(self, kernel: str) -> bool:
        return kernel in self._rows

    def verdict(
        self, kernel: str, configs: Sequence[Configuration], device: Value, capability: Capability | None
    ) -> CounterVerdict | None:
        """Return what all configurations of a kernel agree on; None where they do not, or nothing is proved.

        A configuration that was not measured is taken to do what all measured ones of this kernel do.

        Args:
            kernel: full name.
            configs: in which it was launched; empty where not known.
            device: that ran it; counters of another GPU count where there are none of this one.
            capability: of that device.
        """
        measured = self._rows.get(kernel, {})
        asked = [c for c in configs if c in measured]
        wanted = asked if asked and len(asked) == len(configs) else list(measured)
        found = [judge_counters(_readings(measured[c], device), capability) for c in wanted]
        answers = {one.uses_tc if one else None for one in found}
        return found[0] if len(answers) == 1 else None

    def memory_pct(self, kernel: str, device: Value) -> float | None:
        """Return the share of the memory's peak throughput that a kernel reached, in percent; None if not measured.

        Of several configurations the least.
        """
        each = [_readings(rows, device) for rows in self._rows.get(kernel, {}).values()]
        shares = [reading[metric][0] for reading in each for metric in _MEMORY if metric in reading]
        return min(shares, default=None)

    def pipe_pct(self, kernel: str, device: Value) -> float | None:
        """Return the share of its peak that a kernel's tensor pipe was active, in percent; None where not measured.

        Of its whole time where that was measured, else of the time in which SMs were active; of several configurations
        the least.
        """
        shares: list[float] = []
        for rows in self._rows.get(kernel, {}).values():
            about = _about_tensor_cores(_readings(rows, device))
            found = [r for r in about if r.percent and r.pipe and not re.search(r"\.(?:min|max)\.", r.metric)]
            elapsed = [r.value for r in found if r.metric.endswith("elapsed")]
            shares += [max(elapsed or [r.value for r in found])] if found else []
        return min(shares, default=None)


def _readings(rows: Sequence[tuple[Value, str, float, str]], device: Value) -> dict[str, tuple[float, str]]:
    own = [row for row in rows if row[0] is None or row[0] == device] or rows
    return {metric: (value, unit) for _, metric, value, unit in own}


_BOTH: Final = {"yes", "no"}


def with_memory(kernels: Table, profile: Profile) -> Table:
    """Return the kernels with the throughput of memory that was measured."""
    if not (counters := Counters.of(profile)):
        return kernels
    pairs = zip(kernels.values("kernel"), kernels.values("device"), strict=True)
    return kernels.with_columns(memory_pct=[counters.memory_pct(str(name), device) for name, device in pairs])


def counter_notes(kernels: Table, profile: Profile) -> Iterator[Note]:
    """Yield notes where hardware counters contradict the names of kernels; the verdict is the counters'."""
    if not (counters := Counters.of(profile)):
        return
    names, bases, uses, evidence = (kernels.values(c) for c in ("kernel", "basis", "uses_tc", "evidence"))
    if not any(str(name) in counters for name in names):
        yield Note("counters-unused", "the hardware counters are of kernels that this profile does not name")
    covered = [i for i, basis in enumerate(bases) if basis == "counter"]
    if covered and "serialises_kernels" not in profile.traits:
        share, _ = _costliest(kernels, covered)
        message = f"hardware counters class {share:.1f} % of the kernel time; the rest goes by names"
        yield Note("counters-cover", message, level="note")
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
