"""`plan_of`: how a library runs a product at best, likely and at worst: on which units, padded or not."""

from __future__ import annotations

import math
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from tcprobe.cost.alignment import Library, Penalty, level_of, penalty_of, product_level
from tcprobe.cost.constants import Basis, Constants, Rate, RateFamily, TimeFactors
from tcprobe.cost.shipped import RunsThrough, fitted
from tcprobe.cost.spread import least_ns, spread_of
from tcprobe.cost.tiles import Chip, ComputeUnits, chip_of, compute_bound, compute_units_of
from tcprobe.cost.ways import (
    Way,
    Ways,
    copies_ns,
    in_order,
    padded_by_xla,
    padded_products,
    slowed,
    way_of,
    with_channels,
)
from tcprobe.cost.works import Task, task_of
from tcprobe.gemm.alignment import ALIGN_BYTES, next_size
from tcprobe.gemm.conv import Convolution
from tcprobe.hardware import Gpu
from tcprobe.schema.kinds import Evidence, UsesTc
from tcprobe.schema.op import OpRecord
from tcprobe.schema.provenance import Provenance

FEW_CHANNELS: Final = 4  # images and masks: the library pads these, whatever it does with others
FEW_FILTERS: Final = 4
"""With this few filters, cuDNN may compute a weight gradient by its direct kernel on CUDA cores; seen with 1 filter."""
DIRECT_SHARE: Final = 0.023
"""Share of one SM's float32 peak that cuDNN's `wgrad2d_grouped_direct_kernel` reaches per channel and filter.

One measurement: 42 % of the GPU time of a GAN's step on an A100 (54.7 ms of a step of 68.4 ms, up to 160 ms of one of
200 ms) is 23-67 ms, geometric mean 39 ms, for 4096 x 28 x 28 x 8 -> 1, 5 x 5: 1.28 GFLOP in 8 pairs of channel and
filter, where an SM's share of 19.5 TFLOP/s is 181 GFLOP/s.
"""
DIRECT_SPREAD: Final = 1.7  # from the geometric mean to the slow end; the fast end is the usual kernel
DOUBLE_RATE: Final = 2.0
"""Rate of float16 on CUDA cores over float32's: on V100, T4 and P100, if accumulated in float16 (NVIDIA)."""
GTX16_SLOWER: Final = (1.0, 3.0, 4.0)  # float16 over float32 time on a GTX 16xx: 2-4 (tensorflow/tensorflow#44191)
GROUPED_SLOWER: Final = 4.0  # 16-bit grouped convolutions: 15-29 x slower than float32 reported (apex#712,
# pytorch#34977); we take 4 x an ungrouped one of this size as the worst: a judgement, not a measurement


class Target(Struct, frozen=True, dict=True):
    """The GPU and software for which time is predicted."""

    gpu: Gpu  # the GPU
    # cublas10 is CUDA before 11 with cuDNN before 7.6.3; cublas11 and cublas12 are later ones
    library: Library = "cublas12"
    xla: bool = False  # whether XLA compiles ops that do not say so themselves
    tf32: bool = True  # whether float32 products run as TF32 if the GPU supports it (TensorFlow's default)
    constants: Constants | None = None  # calibrated constants of this GPU; None for the shipped ones
    # what runs the products: a framework, or a serving stack, which reaches more and hides its launches
    through: RunsThrough = "framework"


class Plan(Struct, frozen=True, dict=True):
    """How a library runs a task."""

    ways: Ways  # the best, the likely and the worst
    ideal: Way  # the same task without any penalty
    uses_tc: UsesTc  # whether the likely way runs on Tensor Cores
    spread: TimeFactors  # measured over predicted time of such tasks: 10th percentile, median, 90th
    basis: Basis  # basis of the constants
    constants: Provenance  # whose they are
    whys: tuple[str, ...] = field(default_factory=tuple)  # which figures are not measurements on this GPU, and why
    # whether arithmetic runs at a rate measured for its alignment on this GPU, with an error of its own
    own_rate: bool = False
    # what no kernel beats (`tcprobe.cost.spread.least_ns`); 0 where units are not known to be those
    least_ns: float = 0.0
    evidence: Evidence = "timed"  # what the ways rest on

    @property
    def ends_ns(self) -> TimeFactors:
        """Least, likely and largest time of the kernels: of the best, likely and worst way, each with its error."""
        ends = (w.ns * (1.0 if w.measured else s) for w, s in zip(self.ways, self.spread, strict=True))
        low, likely, high = sorted(max(end, self.least_ns) for end in ends)
        return low, likely, high

    @property
    def launch_ns(self) -> float:
        """Likely time of the launches."""
        return self.ways[1].launch_ns


def plan_of(record: OpRecord, target: Target, dtype: str | None, compiled: bool | None) -> Plan | None:
    """Return how an op runs; None if a size or the rate of its dtype is unknown, or it multiplies nothing."""
    planner = _planner(record, target, dtype)
    return None if planner is None else planner.plan(target.xla if compiled is None else compiled)


def padded_plan_of(record: OpRecord, target: Target, dtype: str | None) -> Plan | None:
    """Return how an unaligned product runs on Tensor Cores if its operands are padded with zeros at run time.

    None for all else: what is aligned, convolutions, 1-byte types, and what `plan_of` does not know.
    """
    planner = _planner(record, target, dtype)
    if planner is None or planner.task.arithmetic != "gemm" or planner.units.family not in ("tc16", "tf32"):
        return None
    return None if product_level(planner.task.contiguous, planner.units.family) is None else planner.padded()


def _planner(record: OpRecord, target: Target, dtype: str | None) -> Planner | None:
    units = compute_units_of(dtype, target.gpu, target.tf32 and target.library != "cublas10")  # TF32 came with CUDA 11
    task = task_of(record, units.width) if units else None
    return None if units is None or task is None else Planner(task, target, units, dtype or "")


class Planner:
    """Works out the ways to run one task."""

    def __init__(self, task: Task, target: Target, units: ComputeUnits, dtype: str) -> None:
        self.task, self.target, self.units, self.dtype = task, target, units, dtype
        self.whys: list[str] = []
        self.basis: Basis = "predicted"
        self.own_rate = False  # whether arithmetic runs at a rate measured for this alignment
        self.evidence: Evidence = "timed"
        rate, self.provenance = self._rate(units.family)
        self.chip = chip_of(target.gpu, rate, units.flop_per_s)
        self.ideal = way_of(task, self.chip)

    def plan(self, compiled: bool) -> Plan:
        """Return the plan."""
        units, gpu = self.units, self.target.gpu
        uses: UsesTc = "yes" if units.tensor_cores else "no"
        if units.emulated:
            ways = self._emulated()
        elif not units.tensor_cores or self._aligned():
            ways = (self.ideal,) * 3
        elif compiled and (padded := padded_by_xla(self.task, self.dtype, gpu, self.chip, units.width)) is not None:
            ways = padded
        elif self.target.library == "cublas10" and units.family == "tc16":
            ways, uses = self._without_tensor_cores(), "no"
        elif units.family == "fp8":
            ways, uses = self._without_float8(), "unknown"
        else:
            ways = self._slower()
        spread, conv = self._spread(), self.task.convolution
        if self.task.groups > 1 and units.family == "tc16":
            ways = (ways[0], ways[1], replace(ways[2], factor=ways[2].factor * GROUPED_SLOWER))
            self.evidence = "judged"
            self.whys.append("grouped convolutions were not measured")
        elif units.family == "tc16" and self.task.kind == "wgrad" and conv and (conv.filters or 0) <= FEW_FILTERS:
            ways, uses = self._direct(conv, ways), "unknown"
        whys = tuple(dict.fromkeys(self.whys))
        least = 0.0 if units.emulated else least_ns(self.task, units.family, self.chip)
        return Plan(
            ways, self.ideal, uses, spread, self.basis, self.provenance, whys, self.own_rate, least, self.evidence
        )

    def padded(self) -> Plan:
        """Return the plan of products that are padded at run time."""
        ways = padded_products(self.task, self.chip, self.units.width, ALIGN_BYTES // self.units.width)
        return Plan(ways, self.ideal, "yes", self._spread(), self.basis, self.provenance)

    def _rate(self, family: RateFamily) -> tuple[Rate, Provenance]:
        gpu, own = self.target.gpu, self.target.constants
        if own is not None and family in own.rates:
            self.basis = own.basis
            return own.rates[family], Provenance(gpu.id, own.gpu, own.stack)
        found = fitted(gpu, family, self.target.through)
        return found.rate, found.provenance

    def _other_chip(self, family: RateFamily, flop_per_s: float) -> Chip:
        """Return the GPU for another family of dtypes, whose constants the plan then rests on too."""
        rate, provenance = self._rate(family)
        self.provenance = self.provenance.beside(provenance)
        return chip_of(self.target.gpu, rate, flop_per_s)

    def _aligned(self) -> bool:
        work = self.task.works[0][0]
        if self.target.library == "cublas10" and self.task.arithmetic == "gemm" and self.units.family == "tc16":
            # NVIDIA, Matrix Multiplication guide, table 1: all three before 11.0
            return level_of([work.m, work.n, work.k], self.units.family) is None
        return product_level(self.task.contiguous, self.units.family) is None

    def _slower(self) -> Ways:
        penalty = self._penalty(self.units.family, self.chip)
        if penalty.why:
            self.whys.append(penalty.why)
        if self.task.arithmetic == "conv":
            return self._slower_conv(penalty)
        self.own_rate = penalty.is_own
        self.evidence = "timed" if self.task.arithmetic == "gemm" else "judged"  # in recurrent layers: none was timed
        return slowed(self.task, self.chip, penalty.compute, penalty.memory)

    def _penalty(self, family: RateFamily, chip: Chip) -> Penalty:
        """Return the penalty; whose unaligned sizes stand in is noted, unless the rates are that GPU's too."""
        least = min(min(work.m, work.n, work.k) for work, _ in self.task.works)
        target = self.target
        found = penalty_of(self.task.contiguous, family, target.gpu, chip.rate, target.constants, least, target.through)
        if found.of != self.provenance.measured_on:
            self.provenance = self.provenance.beside(replace(self.provenance, unaligned_of=found.of))
        return found

    def _slower_conv(self, penalty: Penalty) -> Ways:
        """cuDNN 7.6.3 or later pads unaligned channels itself, or chooses a kernel for smaller alignments."""
        own, conv, width = self.target.constants, self.task.convolution, self.units.width
        key = f"conv:{self.units.family}:{self.task.kind}:{penalty.level}"
        if own is not None and key in own.multipliers:
            return slowed(self.task, self.chip, own.multipliers[key], own.multipliers[key])
        self.evidence = "between"
        self.whys.append("unaligned convolutions were not measured: between none and the slowdown of a product")
        channels, filters = (conv.channels or 0, conv.filters or 0) if conv else (0, 0)
        units = ALIGN_BYTES // width
        padded = with_channels(self.task, next_size(channels or 1, units), next_size(filters or 1, units), width)
        best = way_of(padded, self.chip) if padded else self.ideal
        worst = way_of(self.task, self.chip, (penalty.compute.low, penalty.memory.low))
        compute, memory = math.sqrt(penalty.compute.mid), math.sqrt(penalty.memory.mid)
        likely = way_of(self.task, self.chip, (compute, memory))
        if padded and min(channels, filters) <= FEW_CHANNELS:
            likely = replace(best, extra_ns=copies_ns(self.task, padded, width, self.chip))
        return in_order(best, likely, worst)

    def _without_tensor_cores(self) -> Ways:
        peak = self.target.gpu.peak_flop_per_s("float32")
        if peak is None:
            return (self.ideal,) * 3
        plain = way_of(self.task, self._other_chip("fp32", peak))
        self.whys.append("before CUDA 11 an unaligned product runs on CUDA cores")
        if self.task.arithmetic == "conv":
            self.whys.append("cuDNN 7.6.3 and later pad convolutions and use Tensor Cores")
        return in_order(replace(plain, factor=1 / DOUBLE_RATE), plain, plain)

    def _emulated(self) -> Ways:
        if self.target.gpu.compute_capability == (7, 5) and not self.target.gpu.tensor_cores:
            self.whys.append("16 bits are slower than float32 on a GPU of this kind, 2 to 4 times as reported")
            best, likely, worst = GTX16_SLOWER
        else:
            self.whys.append("this GPU has no Tensor Cores for this dtype")
            double = 1.0 if self.dtype == "bfloat16" else DOUBLE_RATE  # CUDA cores before 8.0 lack bfloat16
            best, likely, worst = 1 / double, 1.0, DOUBLE_RATE
        way = self.ideal
        return replace(way, factor=best), replace(way, factor=likely), replace(way, factor=worst)

    def _without_float8(self) -> Ways:
        """float8 needs whole 16 bytes; what a framework does otherwise is not measured: it uses 16 bits or refuses."""
        self.evidence = "judged"
        self.whys.append("float8 needs multiples of 16: it runs in 16 bits, if at all")
        chip = self._other_chip("tc16", self.target.gpu.peak_flop_per_s("bfloat16") or self.units.flop_per_s)
        penalty = self._penalty("tc16", chip)
        return in_order(*slowed(self.task, chip, penalty.compute, penalty.memory))

    def _direct(self, conv: Convolution, ways: Ways) -> Ways:
        """Slow down the likely and worst way; at best, cuDNN keeps its usual kernel."""
        peak = self.target.gpu.peak_flop_per_s("float32")
        if peak is None or not conv.channels or not conv.filters:
            return ways
        self.whys.append("a weight gradient of so few filters may fall to a kernel on CUDA cores")
        sms = min(conv.channels * conv.filters * DIRECT_SHARE, self.target.gpu.sm)
        likely = self.task.flops / (peak / 1e9 / self.target.gpu.sm * sms)
        direct = Way((), 0.0, self.ideal.launch_ns, likely, measured=True)
        if conv.filters == 1 and len(conv.kernel) == 2:
            self.evidence = "timed"
        elif self.evidence == "between":  # the direct kernel is no end that was timed
            self.evidence = "judged"
        worst = replace(direct, factor=DIRECT_SPREAD)
        return ways[0], direct if conv.filters == 1 else ways[1], max(ways[2], worst, key=lambda way: way.ns)

    def _spread(self) -> TimeFactors:
        """Return the past error of such tasks, limited so that the GPU never beats its own peak."""
        task, chip, target = self.task, self.chip, self.target
        least = least_ns(task, self.units.family, chip) / self.ideal.ns
        found, why, owner = spread_of(task, self.units.family, target.gpu, chip, target.constants, target.library)
        if why:
            self.whys.append(why)
            if owner != target.gpu.id:
                self.provenance = self.provenance.beside(replace(self.provenance, convolutions_of=owner))
        # the error of aligned products counts as far as memory is the limit; a measured rate brings its own
        rest = 1 - min(compute_bound(work, chip) for work, _ in task.works) if self.own_rate else 1.0
        low, likely, high = (max(end**rest, least) for end in found)
        return low, likely, high
