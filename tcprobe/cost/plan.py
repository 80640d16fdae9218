"""`plan_of`: how a library runs a product at best, likely and at worst: on which units, padded or not."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Final

from tcprobe.cost.alignment import Library, Penalty, level_of, penalty_of, product_level
from tcprobe.cost.constants import Basis, Constants, Multiplier, RateFamily, TimeFactors
from tcprobe.cost.dtype import ComputeUnits, compute_units_of
from tcprobe.cost.shipped import RunsThrough, fitted
from tcprobe.cost.spread import least_ns, spread_of
from tcprobe.cost.tiles import Chip, compute_bound
from tcprobe.cost.ways import Way, Ways, copies_ns, in_order, way_of, with_channels
from tcprobe.cost.works import Task, task_of
from tcprobe.cost.xla import padded_by_xla, padded_products
from tcprobe.gemm.alignment import ALIGN_BYTES, next_size
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


@dataclass(frozen=True)
class Target:
    """The GPU and software for which time is predicted.

    Attributes:
        gpu: the GPU.
        library: cublas10 is CUDA before 11 with cuDNN before 7.6.3; cublas11 and cublas12 are later ones.
        xla: whether XLA compiles ops that do not say so themselves.
        tf32: whether float32 products run as TF32 if the GPU supports it (TensorFlow's default).
        constants: calibrated constants of this GPU; None for the shipped ones.
        through: what runs the products: a framework, or a serving stack, which reaches more and hides its launches.
    """

    gpu: Gpu
    library: Library = "cublas12"
    xla: bool = False
    tf32: bool = True
    constants: Constants | None = None
    through: RunsThrough = "framework"


@dataclass(frozen=True)
class Plan:
    """How a library runs a task.

    Attributes:
        ways: the best, the likely and the worst.
        ideal: the same task without any penalty.
        uses_tc: whether the likely way runs on Tensor Cores.
        spread: measured over predicted time of such tasks: 10th percentile, median, 90th.
        basis: basis of the constants.
        constants: whose they are.
        own_rate: whether arithmetic runs at a rate measured for its alignment on this GPU, with an error of its own.
        whys: which figures are not measurements on this GPU, and why.
        least_ns: what no kernel beats (`tcprobe.cost.spread.least_ns`); 0 where units are not known to be those.
        evidence: what the ways rest on.
    """

    ways: Ways
    ideal: Way
    uses_tc: UsesTc
    spread: TimeFactors
    basis: Basis
    constants: Provenance
    whys: tuple[str, ...] = field(default_factory=tuple)
    own_rate: bool = False
    least_ns: float = 0.0
    evidence: Evidence = "timed"

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
        self.provenance: Provenance | None = None
        self.chip = self._chip(units.family, units.flop_per_s)
        self.ideal = way_of(task, self.chip)

    def plan(self, compiled: bool) -> Plan:
        """Return the plan."""
        uses: UsesTc = "yes" if self.units.tensor_cores else "no"
        if self.units.emulated:
            ways = self._emulated()
        elif not self.units.tensor_cores or self._aligned():
            ways = (self.ideal,) * 3
        elif compiled and (padded := self._padded_by_xla()) is not None:
            ways = padded
        elif self.target.library == "cublas10" and self.units.family == "tc16":
            ways, uses = self._without_tensor_cores(), "no"
        elif self.units.family == "fp8":
            ways, uses = self._without_float8(), "unknown"
        else:
            ways = self._slower()
        spread = self._spread()
        if self._falls_to_direct():
            ways, uses = self._direct(ways), "unknown"
        if self.task.groups > 1 and self.units.family == "tc16":
            ways = (ways[0], ways[1], replace(ways[2], factor=ways[2].factor * GROUPED_SLOWER))
            self.evidence = "judged"
            self.whys.append("grouped convolutions were not measured")
        assert self.provenance is not None, "every plan has a chip"
        whys = tuple(dict.fromkeys(self.whys))
        least = 0.0 if self.units.emulated else least_ns(self.task, self.units.family, self.chip)
        return Plan(
            ways, self.ideal, uses, spread, self.basis, self.provenance, whys, self.own_rate, least, self.evidence
        )

    def padded(self) -> Plan:
        """Return the plan of products that are padded at run time."""
        ways = padded_products(self.task, self.chip, self.units.width, ALIGN_BYTES // self.units.width)
        assert self.provenance is not None, "every plan has a chip"
        return Plan(ways, self.ideal, "yes", self._spread(), self.basis, self.provenance)

    def _chip(self, family: RateFamily, flop_per_s: float) -> Chip:
        gpu, own = self.target.gpu, self.target.constants
        if own is not None and family in own.rates:
            rate, self.basis = own.rates[family], own.basis
            self._rests_on(Provenance(gpu.id, own.gpu, own.stack))
        else:
            found = fitted(gpu, family, self.target.through)
            rate = found.rate
            self._rests_on(found.provenance)
        return Chip(rate, flop_per_s / 1e9, gpu.bandwidth_bytes_per_s / 1e9, gpu.sm, gpu.l2_bytes)

    def _rests_on(self, provenance: Provenance) -> None:
        """Note whose constants the plan rests on, besides those noted before."""
        self.provenance = self.provenance.beside(provenance) if self.provenance else provenance

    def _borrows(self, unaligned_of: str | None = None, convolutions_of: str | None = None) -> None:
        """Note whose unaligned sizes or convolutions stand in."""
        assert self.provenance is not None, "a plan rests on rates first"
        more = replace(self.provenance, unaligned_of=unaligned_of, convolutions_of=convolutions_of)
        self.provenance = self.provenance.beside(more)

    def _borrows_sizes(self, penalty: Penalty) -> None:
        """Note whose unaligned sizes stand in, unless the rates are that GPU's too."""
        assert self.provenance is not None, "a plan rests on rates first"
        self._borrows(unaligned_of=penalty.of if penalty.of != self.provenance.measured_on else None)

    def _aligned(self) -> bool:
        work = self.task.works[0][0]
        if self.target.library == "cublas10" and self.task.arithmetic == "gemm" and self.units.family == "tc16":
            # NVIDIA, Matrix Multiplication guide, table 1: all three before 11.0
            return level_of([work.m, work.n, work.k], self.units.family) is None
        return product_level(self.task.contiguous, self.units.family) is None

    def _padded_by_xla(self) -> Ways | None:
        return padded_by_xla(self.task, self.dtype, self.target.gpu, self.chip, self.units.width)

    def _slower(self) -> Ways:
        penalty = self._penalty(self.units.family, self.chip)
        if penalty.why:
            self.whys.append(penalty.why)
        self._borrows_sizes(penalty)
        if self.task.arithmetic == "conv":
            return self._slower_conv(penalty)
        self.own_rate = penalty.is_own
        self.evidence = "timed" if self.task.arithmetic == "gemm" else "judged"  # in recurrent layers: none was timed
        ends = zip(_ends(penalty.compute), _ends(penalty.memory), strict=True)
        best, likely, worst = (way_of(self.task, self.chip, end) for end in ends)
        return best, likely, worst

    def _penalty(self, family: RateFamily, chip: Chip) -> Penalty:
        least = min(min(work.m, work.n, work.k) for work, _ in self.task.works)
        target = self.target
        return penalty_of(self.task.contiguous, family, target.gpu, chip.rate, target.constants, least, target.through)

    def _slower_conv(self, penalty: Penalty) -> Ways:
        """cuDNN 7.6.3 or later pads unaligned channels itself, or chooses a kernel for smaller alignments."""
        own = self.target.constants
        key = f"conv:{self.units.family}:{self.task.kind}:{penalty.level}"
        if own is not None and key in own.multipliers:
            best, likely, worst = (way_of(self.task, self.chip, (end, end)) for end in _ends(own.multipliers[key]))
            return best, likely, worst
        self.evidence = "between"
        self.whys.append("unaligned convolutions were not measured: between none and the slowdown of a product")
        padded = with_channels(self.task, *self._rounded(), self.units.width)
        best = way_of(padded, self.chip) if padded else self.ideal
        worst = way_of(self.task, self.chip, (penalty.compute.low, penalty.memory.low))
        compute, memory = math.sqrt(penalty.compute.mid), math.sqrt(penalty.memory.mid)
        likely = way_of(self.task, self.chip, (compute, memory))
        if self._few_channels() and padded:
            likely = replace(best, extra_ns=copies_ns(self.task, padded, self.units.width, self.chip))
        return in_order(best, likely, worst)

    def _rounded(self) -> tuple[int, int]:
        units = 16 // self.units.width
        conv = self.task.convolution
        return (next_size(conv.channels or 1, units), next_size(conv.filters or 1, units)) if conv else (0, 0)

    def _few_channels(self) -> bool:
        conv = self.task.convolution
        return conv is not None and min(conv.channels or 0, conv.filters or 0) <= FEW_CHANNELS

    def _without_tensor_cores(self) -> Ways:
        plain = self._plain()
        if plain is None:
            return (self.ideal,) * 3
        self.whys.append("before CUDA 11 an unaligned product runs on CUDA cores")
        if self.task.arithmetic == "conv":
            self.whys.append("cuDNN 7.6.3 and later pad convolutions and use Tensor Cores")
        return in_order(replace(plain, factor=1 / DOUBLE_RATE), plain, plain)

    def _emulated(self) -> Ways:
        if self.target.gpu.compute_capability == (7, 5) and not self.target.gpu.tensor_cores:
            self.whys.append("16 bits are slower than float32 on a GPU of this kind, 2 to 4 times as reported")
            ends = GTX16_SLOWER
        else:
            self.whys.append("this GPU has no Tensor Cores for this dtype")
            double = 1.0 if self.dtype == "bfloat16" else DOUBLE_RATE  # CUDA cores before 8.0 lack bfloat16
            ends = (1 / double, 1.0, DOUBLE_RATE)
        best, likely, worst = (replace(self.ideal, factor=end) for end in ends)
        return best, likely, worst

    def _without_float8(self) -> Ways:
        """float8 needs whole 16 bytes; what a framework does otherwise is not measured: it uses 16 bits or refuses."""
        self.evidence = "judged"
        self.whys.append("float8 needs multiples of 16: it runs in 16 bits, if at all")
        peak = self.target.gpu.peak_flop_per_s("bfloat16") or self.units.flop_per_s
        chip = self._chip("tc16", peak)
        penalty = self._penalty("tc16", chip)
        self._borrows_sizes(penalty)
        ends = zip(_ends(penalty.compute), _ends(penalty.memory), strict=True)
        return in_order(*(way_of(self.task, chip, end) for end in ends))

    def _plain(self) -> Way | None:
        peak = self.target.gpu.peak_flop_per_s("float32")
        return None if peak is None else way_of(self.task, self._chip("fp32", peak))

    def _falls_to_direct(self) -> bool:
        conv = self.task.convolution
        if conv is None or self.task.kind != "wgrad" or self.units.family != "tc16" or self.task.groups > 1:
            return False
        return (conv.filters or 0) <= FEW_FILTERS

    def _direct(self, ways: Ways) -> Ways:
        """Slow down the likely and worst way; at best, cuDNN keeps its usual kernel."""
        conv, peak = self.task.convolution, self.target.gpu.peak_flop_per_s("float32")
        if conv is None or peak is None or not conv.channels or not conv.filters:
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
        family, least = self.units.family, least_ns(self.task, self.units.family, self.chip) / self.ideal.ns
        target = self.target
        (low, likely, high), why, owner = spread_of(
            self.task, family, target.gpu, self.chip, target.constants, target.library
        )
        if why:
            self.whys.append(why)
            self._borrows(convolutions_of=owner if owner != target.gpu.id else None)
        if self.own_rate:
            # the error of aligned products counts as far as memory is the limit; the measured rate brings its own
            rest = 1 - min(compute_bound(work, self.chip) for work, _ in self.task.works)
            low, likely, high = low**rest, likely**rest, high**rest
        return max(low, least), max(likely, least), max(high, least)


def _ends(value: Multiplier) -> TimeFactors:
    """Return the rates, best first."""
    return value.high, value.mid, value.low
