"""`op_cost`, `gains`: the predicted time of a product or convolution on any known GPU, as a library runs it."""

from __future__ import annotations

import math
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from tcprobe.cost.alignment import HOPPER_TF32, Library, Penalty, level_of, penalty_of
from tcprobe.cost.constants import Basis, Constants, Rate, RateFamily, RunsThrough, TimeFactors, fitted
from tcprobe.cost.spread import FEW, least_ns, spread_of
from tcprobe.cost.tiles import Chip, chip_of, compute_bound
from tcprobe.cost.works import (
    Task,
    Way,
    Ways,
    copies_ns,
    in_order,
    padded_by_xla,
    padded_products,
    slowed,
    task_of,
    turning_ns,
    way_of,
    with_channels,
)
from tcprobe.gemm.conv import Convolution
from tcprobe.gemm.record import ALIGN_BYTES, next_size
from tcprobe.hardware import Gpu
from tcprobe.schema.finding import Range
from tcprobe.schema.kinds import Evidence, Limit, UsesTc
from tcprobe.schema.op import OpRecord
from tcprobe.schema.provenance import Provenance

FEW_CHANNELS: Final = 4  # images and masks: the library pads these, whatever it does with others
FEW_FILTERS: Final = 4
"""With this few filters, cuDNN may compute a weight gradient by its direct kernel on CUDA cores; seen with 1 filter."""
DIRECT_SHARE: Final = 0.022
"""Share of one SM's float32 peak that cuDNN's `wgrad2d_grouped_direct_kernel` reaches per channel and filter.

One measurement: 10.09 ms (9.996-10.268, 588 calls) for 1024 x 28 x 28 x 8 -> 1, 5 x 5, in float16 on an A100: 0.32
GFLOP in 8 pairs of channel and filter, where an SM's share of 19.5 TFLOP/s is 181 GFLOP/s (without XLA, a batch of
1,024; argonne-lcf/CompPerfWorkshop-2021, 09_profiling_frameworks/TensorFlow/reduced_precision, kernel-stats.png). XLA
ran the same gradient otherwise: with a batch of 4,096 no cluster of a step took so long (10_reduced-precision).
"""
DIRECT_SPREAD: Final = 1.3  # from the likely time to the slow end, for other sizes and versions: a judgement
LEAST_TURNED: Final = 0.4
"""Share of the copies that turn TF32 convolutions' tensors that is there at the least.

Of a GAN's step on an A100 (a batch of 1,024, without XLA) `nchwToNhwcKernel` alone takes about 1.4 ms where 3.6 are
predicted for both directions (argonne-lcf/CompPerfWorkshop-2021, tf_profiler/kernel-stats.png).
"""
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
    # whether convolutions in TF32 keep their tensors channels-last; by default no framework trains so
    channels_last: bool = False


class Cost(Struct, frozen=True):
    """The predicted time of one execution of an op: of its kernels, and of their launch."""

    # low_ns, ns, high_ns: likely time of its kernels, and the span that it may lie in.
    low_ns: float
    ns: float
    high_ns: float
    limit: Limit  # what limits its speed
    uses_tc: UsesTc  # whether it runs on Tensor Cores
    # its rate relative to the same product without a penalty, 0-100; None if it has no penalty
    rate_pct: Range | None = None
    # tile of the costliest part (``128x256``, with ``/4`` if the contraction is split in four)
    tile: str | None = None
    waves: float | None = None  # rounds of its tiles over all SMs
    # what launching them adds to a step, if the GPU waits for it; not part of a kernel's measured time
    launch_ns: float = 0.0
    basis: Basis = "predicted"  # predicted, or calibrated on this GPU
    constants: Provenance | None = None  # whose constants the figures rest on
    # whether arithmetic runs at a rate measured for an unaligned size, with an error of its own
    own_rate: bool = False
    evidence: Evidence = "timed"  # what the figures rest on, besides the model

    @property
    def timed_ns(self) -> float:
        """Likely time with the launch, as the stack itself times one call."""
        return self.ns + self.launch_ns

    @property
    def ends_ns(self) -> TimeFactors:
        """Least, likely and largest time of its kernels."""
        return self.low_ns, self.ns, self.high_ns


def planner_of(record: OpRecord, target: Target, dtype: str | None) -> Planner | None:
    """Return what plans an op; None if a size or the rate of its dtype is unknown, or it multiplies nothing."""
    # TF32 came with CUDA 11
    task = task_of(record, target.gpu, target.tf32 and target.library != "cublas10", dtype)
    return None if task is None else Planner(task, target, dtype or record.dtype or "")


class Planner:
    """Works out how a library runs one task at best, likely and at worst, and what that costs.

    Attributes:
        ideal: the task without any penalty.
    """

    def __init__(self, task: Task, target: Target, dtype: str) -> None:
        self.task, self.target, self.units, self.dtype = task, target, task.units, dtype
        self.basis: Basis = "predicted"
        self.own_rate = False  # whether arithmetic runs at a rate measured for this alignment
        self.evidence: Evidence = "timed"
        rate, self.provenance = self._rate(self.units.family)
        self.chip = chip_of(target.gpu, rate, self.units.flop_per_s)
        if self.units.family == "tf32" and target.gpu.compute_capability[0] == 9 and task.strides_both:
            # what was calibrated holds all layouts
            self.chip = replace(self.chip, layout=HOPPER_TF32 if self.basis == "predicted" else 1.0)
        self.ideal = way_of(task, self.chip)
        turned = self.units.family == "tf32" and task.arithmetic == "conv" and not target.channels_last
        self.turned_ns = turning_ns(task, self.chip) if turned else 0.0

    def cost(self, compiled: bool | None) -> Cost:
        """Return what the task costs; `compiled` says whether XLA compiles it, None leaves that to the target."""
        units, xla = self.units, self.target.xla if compiled is None else compiled
        uses: UsesTc = "yes" if units.tensor_cores else "no"
        if units.emulated:
            ways = self._emulated()
        elif not units.tensor_cores or self._aligned():
            ways = (self.ideal,) * 3
        elif xla and (padded := padded_by_xla(self.task, self.dtype, self.target.gpu, self.chip)) is not None:
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
        elif units.family == "tc16" and self.task.kind == "wgrad" and conv and (conv.filters or 0) <= FEW_FILTERS:
            ways, uses = (ways if xla else self._direct(conv, ways)), "unknown"
        return self._cost(ways, uses, spread, 0.0 if units.emulated else least_ns(self.task, self.chip))

    def padded(self) -> Cost | None:
        """Return what an unaligned product costs on Tensor Cores if its operands are padded with zeros at run time.

        None for all else: what is aligned, convolutions and 1-byte types.
        """
        if self.task.arithmetic != "gemm" or self.units.family not in ("tc16", "tf32") or self.task.level is None:
            return None
        ways = padded_products(self.task, self.chip, ALIGN_BYTES // self.units.width)
        return self._cost(ways, "yes", self._spread(), 0.0)

    def _cost(self, ways: Ways, uses_tc: UsesTc, spread: TimeFactors, least: float) -> Cost:
        """Return what ways cost, each with its error, none less than what no kernel beats."""
        ends = (way.ns * (1.0 if way.measured else error) for way, error in zip(ways, spread, strict=True))
        low, ns, high = sorted(max(end, least) for end in ends)
        low, ns, high = low + LEAST_TURNED * self.turned_ns, ns + self.turned_ns, high + self.turned_ns
        main = max(ways[1].parts, key=lambda part: part.ns, default=None)
        return Cost(
            low_ns=low,
            ns=ns,
            high_ns=high,
            limit=ways[1].limit,
            uses_tc=uses_tc,
            rate_pct=self._rate_pct(ways, spread[1]),
            tile=main.tile if main else None,
            waves=main.waves if main else None,
            launch_ns=ways[1].launch_ns,
            basis=self.basis,
            constants=self.provenance,
            own_rate=self.own_rate,
            evidence=self.evidence,
        )

    def _rate_pct(self, ways: Ways, error: float) -> Range | None:
        """Return the rates of ways; `error` is that of the model, which is in both unless a way is not from it."""
        if all(way is self.ideal for way in ways):
            return None
        ideal = self.ideal.ns
        return Range(*sorted(min(100.0, 100.0 * ideal * (error if way.measured else 1.0) / way.ns) for way in ways))

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
        return self.task.level is None

    def _slower(self) -> Ways:
        penalty = self._penalty(self.units.family, self.chip)
        if self.task.arithmetic == "conv":
            return self._slower_conv(penalty)
        self.own_rate = penalty.is_own
        # In recurrent layers none was timed, and of products none that memory bounds for its few samples.
        self.evidence = "judged" if self.task.least <= FEW or self.task.arithmetic != "gemm" else "timed"
        return slowed(self.task, self.chip, penalty.compute, penalty.memory)

    def _penalty(self, family: RateFamily, chip: Chip) -> Penalty:
        """Return the penalty; whose unaligned sizes stand in is noted, unless the rates are that GPU's too."""
        target, least = self.target, self.task.least
        found = penalty_of(self.task.contiguous, family, target.gpu, chip.rate, target.constants, least, target.through)
        if found.of != self.provenance.measured_on:
            self.provenance = self.provenance.beside(replace(self.provenance, unaligned_of=found.of))
        return found

    def _slower_conv(self, penalty: Penalty) -> Ways:
        """cuDNN 7.6.3 or later pads unaligned channels itself, or chooses a kernel for smaller alignments."""
        own, conv = self.target.constants, self.task.convolution
        key = f"conv:{self.units.family}:{self.task.kind}:{penalty.level}"
        if own is not None and key in own.multipliers:
            return slowed(self.task, self.chip, own.multipliers[key], own.multipliers[key])
        self.evidence = "between"
        channels, filters = (conv.channels or 0, conv.filters or 0) if conv else (0, 0)
        multiple = ALIGN_BYTES // self.units.width
        padded = with_channels(self.task, *(next_size(size or 1, multiple) for size in (channels, filters)))
        best = way_of(padded, self.chip) if padded else self.ideal
        worst = way_of(self.task, self.chip, (penalty.compute.low, penalty.memory.low))
        compute, memory = math.sqrt(penalty.compute.mid), math.sqrt(penalty.memory.mid)
        likely = way_of(self.task, self.chip, (compute, memory))
        if padded and min(channels, filters) <= FEW_CHANNELS:
            likely = replace(best, extra_ns=copies_ns(self.task, padded, self.chip))
        return in_order(best, likely, worst)

    def _without_tensor_cores(self) -> Ways:
        """Before CUDA 11 an unaligned product runs on CUDA cores."""
        peak = self.target.gpu.peak_flop_per_s("float32")
        if peak is None:
            return (self.ideal,) * 3
        plain = way_of(self.task, self._other_chip("fp32", peak))
        # cuDNN 7.6.3 and later pad convolutions and use Tensor Cores
        return in_order(replace(plain, factor=1 / DOUBLE_RATE), plain, plain)

    def _emulated(self) -> Ways:
        if self.target.gpu.compute_capability == (7, 5) and not self.target.gpu.tensor_cores:
            best, likely, worst = GTX16_SLOWER
        else:
            double = 1.0 if self.dtype == "bfloat16" else DOUBLE_RATE  # CUDA cores before 8.0 lack bfloat16
            best, likely, worst = 1 / double, 1.0, DOUBLE_RATE
        way = self.ideal
        return replace(way, factor=best), replace(way, factor=likely), replace(way, factor=worst)

    def _without_float8(self) -> Ways:
        """float8 needs whole 16 bytes; what a framework does otherwise is not measured: it uses 16 bits or refuses."""
        self.evidence = "judged"
        chip = self._other_chip("tc16", self.target.gpu.peak_flop_per_s("bfloat16") or self.units.flop_per_s)
        penalty = self._penalty("tc16", chip)
        return in_order(*slowed(self.task, chip, penalty.compute, penalty.memory))

    def _direct(self, conv: Convolution, ways: Ways) -> Ways:
        """Slow down the likely and worst way; at best, cuDNN keeps its usual kernel."""
        peak = self.target.gpu.peak_flop_per_s("float32")
        if peak is None or not conv.channels or not conv.filters:
            return ways
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
        least = least_ns(task, chip) / self.ideal.ns
        found, owner = spread_of(task, target.gpu, chip, target.constants, target.library, target.through)
        if owner not in (None, target.gpu.id):
            self.provenance = self.provenance.beside(replace(self.provenance, convolutions_of=owner))
        # the error of aligned products counts as far as memory is the limit; a measured rate brings its own
        rest = 1 - min(compute_bound(work, chip) for work, _ in task.works) if self.own_rate else 1.0
        low, likely, high = (max(end**rest, least) for end in found)
        return low, likely, high


def op_cost(record: OpRecord, target: Target, dtype: str | None = None, compiled: bool | None = None) -> Cost | None:
    """Return the predicted time of one execution of an op.

    Args:
        record: the op, with its shapes and, for a convolution, its strides and padding.
        target: GPU, library, and whether XLA and TF32 are on.
        dtype: dtype of its operands, the record's by default. float32 runs as TF32 if the target says so.
        compiled: whether XLA compiles it; None leaves it to the target.

    Returns:
        None if a size is unknown or zero, if the dtype is unknown, mixed, or has no rate on this GPU, or if the op
        multiplies no matrices (a depthwise convolution, or one with as many groups as channels: both are memory-bound).
    """
    planner = planner_of(record, target, dtype)
    return None if planner is None else planner.cost(compiled)


def saving(
    before: OpRecord,
    after: OpRecord,
    target: Target,
    dtype: str | None = None,
    compiled: bool | None = None,
) -> Range | None:
    """Return how many ns the kernels of one execution save if `before` becomes `after`, as predicted; None if unknown.

    A saving is negative if the change costs more than it saves; `gains` tells how its range follows.
    """
    first, second = op_cost(before, target, dtype, compiled), op_cost(after, target, dtype, compiled)
    if first is None or second is None:
        return None
    found = gains(first, second)
    return Range(min(found), found[1], max(found))


def gains(before: Cost, after: Cost, apart: bool = False) -> tuple[float, float, float]:
    """Return how many ns a change saves: at the least times of both, at the likely and at the largest ones.

    The model's errors apply to both alike, so the ends are compared with each other. The measured rate of an unaligned
    size has an error of its own: it and the aligned product's add up as independent ones, least saving first.

    Args:
        before: as it is.
        after: as it would be.
        apart: whether the errors of both are independent, as those of other units and algorithms are.
    """
    likely = before.ns - after.ns
    if before.own_rate == after.own_rate and not apart:
        return before.low_ns - after.low_ns, likely, before.high_ns - after.high_ns
    less = math.hypot(before.ns - before.low_ns, after.high_ns - after.ns)
    more = math.hypot(before.high_ns - before.ns, after.ns - after.low_ns)
    return likely - less, likely, likely + more


def padding(record: OpRecord, target: Target, dtype: str | None = None) -> Range | None:
    """Return how many ns padding an op's operands with zeros at run time saves, copies counted, as predicted.

    None where nothing is to be padded or a time is unknown. An unaligned product's error has nothing to do with that of
    the padded one: the least that padding saves is the least time without it less the largest with it. Where that is 0
    or below, padding may lose.
    """
    before, planner = op_cost(record, target, dtype, False), planner_of(record, target, dtype)
    after = None if planner is None else planner.padded()
    if before is None or after is None:
        return None
    (low, likely, high), (least, padded, most) = before.ends_ns, after.ends_ns
    return Range(low - most, likely - padded, high - least)
