"""What a rule on a run reads and returns: `Run`, and how much of a step something concerns.

Bounds are those of docs/figures.md, section Advice: no item can save more of a step than the GPU is busy in it, or
than it waits in it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from tcprobe.schema.advice import Advice, AdviceKind, Bound, Concern, ShareOf, Where
from tcprobe.schema.finding import Range
from tcprobe.schema.kinds import LEAVE, Blocker, BlockerKind, CauseKind, ChangeKind, KernelKind
from tcprobe.schema.records import text_of
from tcprobe.schema.statement import FieldValue, say

if TYPE_CHECKING:
    from tcprobe.hardware import Gpu
    from tcprobe.rules.words import Act, Framework
    from tcprobe.schema.columns import Row, Value
    from tcprobe.schema.profile import Profile
    from tcprobe.schema.waits import StepLength
    from tcprobe.schema.whatif import WhatIf

RunSays: TypeAlias = "Mapping[AdviceKind, Callable[..., Act]]"
"""What each kind of advice says: of an item, and of the fields of its statement by their names."""
SHAPES: Final[tuple[BlockerKind, ...]] = ("shape", "shape_required")
CHOSEN: Final[tuple[BlockerKind, ...]] = (*SHAPES, "library")
VECTOR: Final = re.compile(r"gemv", re.IGNORECASE)  # a matrix times a vector is bound by memory: no size changes that
HLO_TYPES: Final = frozenset({"dot", "convolution", "ragged-dot", "scaled-dot", "__cublas", "__cudnn"})
TINY_NS: Final = 10_000
"""A kernel shorter than this is tiny: a launch takes the host a few microseconds, so that it hardly keeps ahead of such
kernels. Source: NVIDIA, Getting Started with CUDA Graphs (a kernel of 2.9 us costs 3.8 us or more to launch)."""
Tf32Off = Literal["environment", "asked", "script"]
"""Why TF32 was off: a variable that the run inherited, or the precision that was asked of ``tcprobe profile``."""


class TinyKernels(Struct, frozen=True):
    """The launches of the window, of all GPUs."""

    launches: float  # how many
    # how many of them took less than `TINY_NS`; in a source with sums alone, those of kernels whose mean did
    tiny: float
    tiny_ns: float  # time of these
    graphs: bool = False  # whether most of them were launched by CUDA graphs


class LayoutWork(Struct, frozen=True):
    """Kernels of the window that change layout or type, with the costliest op that launched one."""

    ns: float  # their time
    casts_ns: float  # what of it changes the type alone
    where: Where  # that op
    op_type: str | None  # its type; None if unknown
    op_ns: float  # its part of `ns`
    convolutions: bool = True  # whether the run holds a convolution, whose layout there is to choose


class LossScaling(Struct, frozen=True):
    """What dynamic loss scaling adds to the window."""

    ops: int  # how many ops look whether gradients are finite
    ns: float  # kernel time of these
    waiting_ns: float  # time that GPUs wait after the copy of their answer to the host, summed over GPUs


class WarmUp(Struct, frozen=True):
    """What speaks for warm-up among the counted steps."""

    steps: int | None  # how many count; None where no step is marked
    slow: int = 0  # how many of the first ones are slower than the rest
    slowest_ns: float | None = None  # length of the slowest of these
    usual_ns: float | None = None  # median length of the others


class TopKernel(Struct, frozen=True):
    """The kernel that takes most of the kernel time."""

    name: str  # its name
    ns: float  # its time in the window
    share_pct: float  # that over all kernel time, 0-100
    cause: CauseKind | None  # why that time is spent as it is, of most of it; None if unknown
    uses_tc: str  # yes, no or unknown
    where: Where  # the costliest op that launched it
    op_type: str | None = None  # type of that op; None if unknown
    communicates: bool = False  # whether it moves data between GPUs
    unnamed_pct: float = 0.0  # share of its time for which the source names no op, 0-100


class MemoryUse(Struct, frozen=True):
    """Memory of the only GPU that ran kernels."""

    peak_bytes: float  # most that the workload held, as its allocator counts; what a framework reserves does not count
    total_bytes: float  # that of the GPU

    @property
    def used_pct(self) -> float:
        """Return the peak over all memory, 0-100."""
        return 100.0 * self.peak_bytes / self.total_bytes


class ChainWork(Struct, frozen=True):
    """Chains of the window that a compiler could fuse, of all GPUs."""

    ns: float  # time of their kernels
    at_most_ns: float  # what one kernel in place of each saves at most
    launches: float  # their kernels
    chains: float  # how often one ran
    kinds: tuple[KernelKind, ...]  # what their kernels do, the most frequent first
    # moved_bytes, again_bytes: of all of them; None where the shapes of some are unknown.
    moved_bytes: float | None = None
    again_bytes: float | None = None
    where: Where = Where()  # the costliest op
    ops: frozenset[str] = frozenset()  # ops and layers that the table names


class Misaligned(Struct, frozen=True):
    """Tensor Core kernels without an op that load less than 16 bytes at once."""

    ns: float  # their time in the window
    at_most_ns: float  # what aligned ones save at most, by published rates of large products
    kernel: str  # the costliest
    rate_pct: int  # its rate over an aligned one's, 0-100
    timed: str  # id of the GPU whose products were timed
    alignment: int  # elements that it loads at once


class Tail(Struct, frozen=True):
    """What the empty part of the last waves of Tensor Core kernels takes, as far as their grids tell."""

    ns: float  # of the window, at most
    kernel: str  # the kernel with most of it
    waves: float  # of its costliest configuration
    blocks_per_sm: int  # that run at once
    tile: str
    where: Where = Where()  # the costliest op that launched it


class Diverged(Struct, frozen=True):
    """A loss that ends as NaN or an infinity, of several the one that does so first."""

    name: str  # as logged
    value: str  # nan, inf or -inf
    step: int | None  # the first step that logs it; None if it was logged outside steps
    before: int | None  # the last step that logged a finite value before it; None if none did
    before_value: float | None  # that value
    half: bool  # whether the script computes in float16
    # how the optimizer scales the loss, and a fixed scale's value; None where nobody knows, or several do
    scale: str | None = None
    scale_value: float | None = None


class Facts(Struct, frozen=True):
    """All of these; None where the profile does not tell."""

    tiny: TinyKernels | None = None  # its launches
    layout: LayoutWork | None = None  # what changes layout or type
    scaling: LossScaling | None = None  # dynamic loss scaling in float16
    warm_up: WarmUp | None = None  # warm-up among the counted steps
    top: TopKernel | None = None  # the costliest kernel
    memory: MemoryUse | None = None  # memory of its GPU
    small_ns: float = 0.0  # kernel time of products too small to fill the GPU
    epoch_steps: int | None = None  # how often most ops ran in what a key node counts as one step
    tf32_off: Tf32Off | None = None  # why TF32 was off
    gpu: Gpu | None = None  # the GPU that ran; None if it is unknown or if several models ran
    framework: Framework | None = None  # what the user's code is written with
    # kernel time of the window off the Tensor Cores whose ops the source does not name, without kernels whose names
    # tell that no product has them (a framework's element-wise ones, communication)
    unnamed_ns: float = 0.0
    unnamed_kernel: str | None = None  # the costliest of these whose name tells that it multiplies, if there is one
    chains: ChainWork | None = None  # kernels that follow one another and could be one
    tail: Tail | None = None  # partly empty last waves
    diverged: Diverged | None = None  # a loss that is no finite number at the end
    misaligned: Misaligned | None = None  # Tensor Core kernels of no op that load less than 16 bytes at once


class OffOp(Struct, frozen=True):
    """One op off the Tensor Cores."""

    row: Row  # its row of `ops`, else of `gemms`
    blocker: Blocker  # what keeps it off
    weight: float  # ns of kernel time in the window, else FLOPs of a step

    @property
    def place(self) -> str:
        """The name under which `bad_sizes` lists it: its layer's, else its own."""
        return str(self.row["layer"] or self.row["op"])

    @property
    def chosen(self) -> bool:
        """Whether a library chose its kernel, where GPU and dtype would have allowed Tensor Cores."""
        return self.blocker.kind in CHOSEN

    @property
    def where(self) -> Where:
        """Where it stands."""
        row = self.row
        return Where(text_of(row["layer"]), text_of(row["op"]), text_of(row["pass"]), text_of(row["source"]))


def names_in(where: Where) -> frozenset[str]:
    """Return the op and the layer of a place, for what asks whether two items draw on the same time."""
    return frozenset(name for name in (where.op, where.layer) if name)


def names_of(ops: Sequence[OffOp]) -> frozenset[str]:
    """Return the same of ops and their layers."""
    return frozenset(name for op in ops for name in (str(op.row["op"]), op.place))


class Run:
    """An analysed profile as the rules on runs read it; what none of them asks for is not worked out."""

    def __init__(self, profile: Profile, facts: Facts) -> None:
        self.profile, self.facts = profile, facts
        self.waiting, self.tuning = profile.waiting, profile.tuning
        self.what_ifs = tuple(one for one in profile.what_ifs if not one.bound)  # a bound is no prediction
        # What the weights of `off` are shares of, 0 if that is unknown; whether they are kernel time, else FLOPs; and
        # whether they are only what is known of a step
        self.total, self.measured, self.bounded = 0.0, False, False
        if (off := profile.off) is not None:
            self.total, self.measured, self.bounded = off.total, off.measured, off.bounded
        # How many GPUs ran kernels, the share of kernel time on the busiest one, and the steps that these times are of
        self.gpus, self.busiest = profile.busiest_gpu
        self.steps = profile.kernel_steps

    @cached_property
    def off(self) -> Sequence[OffOp]:
        """The ops off the Tensor Cores, costliest first."""
        cost = self.profile.off
        rows = zip(cost.table.rows(), cost.weight.tolist(), strict=True) if cost else ()
        return [OffOp(row, blocker, weight) for row, weight in rows if (blocker := Blocker.of(row)) is not None]

    @cached_property
    def lowered(self) -> ChangeKind | None:
        """Which change brings most of the time of products of no op onto the Tensor Cores; None where none is known.

        Of another precision that is TF32 where the GPU has it.
        """
        ways: tuple[ChangeKind, ...] = ("tensor_cores", "allow_tf32", "mixed_float16")
        return next((change for change in ways if self.unnamed(change) is not None), None)

    def unnamed(self, change: ChangeKind) -> Concern | None:
        """Return how much of a step the kernels off the Tensor Cores concern whose ops the source does not name.

        None where there are none, and where this change does not concern most of their time.
        """
        bound = self._bound(change)
        if bound is None or self.facts.unnamed_ns <= 0 or self.kernel_ns <= 0 or self.tuning is not None:
            return None
        concern = self.of_kernels(self.facts.unnamed_ns)
        if concern.at_most_ns is None or 2 * bound.spent_ns < concern.at_most_ns:
            return None
        rest = max(0.0, concern.at_most_ns - bound.spent_ns) if change == "tensor_cores" else 0.0
        return replace(concern, at_most_ns=rest + bound.gain_ns.high, bound="tile rates")

    def as_what_if(self, item: Advice, change: ChangeKind) -> Advice:
        """Return an item that saves what the what-if of its change bounds, where that is of most of its time.

        So one change has one bound in a report, whether that is above or below the one by peak rates.
        """
        bound, concern = self._bound(change), item.concern
        if bound is None or concern.at_most_ns is None or 2 * bound.spent_ns < concern.at_most_ns:
            return item
        most = min(bound.gain_ns.high, self.busy_ns)
        return replace(item, concern=replace(concern, at_most_ns=most, bound="tile rates"))

    def _bound(self, change: ChangeKind) -> WhatIf | None:
        return next((one for one in self.profile.what_ifs if one.bound and one.change == change), None)

    @cached_property
    def sizes(self) -> Sequence[Row]:
        """The rows of `bad_sizes`, costliest first."""
        from tcprobe.schema.whatif import worst_first  # which loads numpy

        return list(worst_first(self.profile.require("bad_sizes")).rows())

    @cached_property
    def gaps(self) -> Sequence[Row]:
        """The rows of `gaps`, longest first."""
        return list(self.profile.require("gaps").rows())

    @cached_property
    def kernel_ns(self) -> float:
        """Kernel time of the window; 0 if unknown."""
        return self.profile.value("kernel_time_ns") or 0.0

    @cached_property
    def step_ns(self) -> float | None:
        """Length of a step by any clock; None if unknown."""
        return self.waiting.step_ns if self.waiting else self.profile.value("step_time_ns")

    @cached_property
    def compiled(self) -> bool:
        """Whether XLA compiled the step: the run says so, or ops of its graph are HLO instructions."""
        types = {name.split("$")[0] for name in self.profile.require("graph_ops").names("op_type").names}
        return self.profile.metadata.xla is True or not HLO_TYPES.isdisjoint(types)

    @cached_property
    def waits(self) -> Sequence[Row]:
        """The rows of `waits`, longest first."""
        return sorted(self.profile.require("waits").rows(), key=lambda row: -int(row["idle_ns"] or 0))

    @cached_property
    def launching_ns(self) -> float:
        """What of the window passes in launches, and between kernels at their pace; 0 if unknown."""
        paced = (r for r in self.waits if r["host_work"] == "launch" or (r["short"] and r["host_work"] == "queued"))
        return idle_ns(paced)

    def blocked(self, *kinds: BlockerKind) -> list[OffOp]:
        """Return the ops that one of these keeps off, without those that an item on sizes covers; costliest first."""
        few = {row["layer"] for row in self.few_filters()}
        settled = {row["layer"] for row in self.sizes if to_change(row)} | self._left_alone()
        return [
            op
            for op in (self.off if self.total else ())
            if op.blocker.kind in kinds
            and not (op.blocker.kernel and VECTOR.search(op.blocker.kernel))
            and not (op.place in few and op.chosen)
            and not (op.place in settled and op.blocker.kind in SHAPES)
        ]

    def few_filters(self) -> list[Row]:
        """Return the rows of convolutions of few filters: computing more and slicing them off may be faster."""
        return [row for row in self.sizes if row["advice_kind"] == "slice"]

    def item(
        self, code: str, kind: AdviceKind, ops: Sequence[OffOp], shrinks: float = 1.0, **fields: FieldValue
    ) -> Advice:
        """Return the item on these ops, at least one; `shrinks` as in `concern_of`, `fields` for its sentence."""
        concern = self.concern_of(ops, shrinks)
        return Advice(code, say(kind, **fields), concern, ops[0].where, blocker=ops[0].blocker, draws_on=names_of(ops))

    def in_step(self, window_ns: float) -> float:
        """Return a kernel time of the window, of all GPUs, as that of a step on the one that ran most; 0 if unknown."""
        return window_ns / self.steps * self.busiest if self.steps else 0.0

    def waits_in_step(self, window_ns: float) -> float:
        """Return a time of waiting in the window, summed over GPUs, as that of a step on one of them; 0 if unknown."""
        return window_ns / self.steps / self.gpus if self.steps else 0.0

    def concern_of(self, ops: Sequence[OffOp], shrinks: float = 1.0) -> Concern:
        """Return how much of a step these ops concern.

        Args:
            ops: at least one.
            shrinks: the share of their time that can go at most, 0 to 1.
        """
        spent = sum(op.weight for op in ops)
        of: ShareOf = "kernel_time" if self.measured else "known_flops" if self.bounded else "flops"
        return self.concern(100.0 * spent / self.total, of, spent if self.measured else None, shrinks)

    def concern(self, share: float, of: ShareOf, spent_ns: float | None, shrinks: float = 1.0) -> Concern:
        """Return how much of a step some kernel time of the window concerns.

        Args:
            share: share of the run, 0-100.
            of: what that is a share of.
            spent_ns: the kernel time, over all steps and GPUs; None if unknown.
            shrinks: the share of it that can go at most, 0 to 1.
        """
        each = None if spent_ns is None or not self.steps else spent_ns / self.steps
        if self.waiting is None or spent_ns is None or not self._of_one_clock:
            return Concern(share, of, each, None, self.step_ns, self.length, gpus=self.gpus)
        alone = self.busy_ns * share / 100.0 if each is None else each * self.busiest
        bound: Bound = "kernel time" if shrinks == 1.0 else "peak rates"
        most = shrinks * min(alone, self.busy_ns)
        return Concern(share, of, each, most, self.waiting.step_ns, self.length, bound, self.gpus)

    @property
    def _of_one_clock(self) -> bool:
        """Whether kernel times are of what the length of a step is of, and not sums that a profiler gives beside it."""
        figure = self.profile.figure("kernel_time_ns")
        return self.length != "capture" or figure is None or figure["basis"] != "reported"

    @property
    def length(self) -> StepLength | None:
        """What the length of a step rests on; None if unknown."""
        return self.waiting.length if self.waiting else None

    def of_kernels(self, ns: float) -> Concern:
        """Return how much of a step some kernel time of the window concerns, all of which may go."""
        share = 100.0 * ns / self.kernel_ns if self.kernel_ns > 0 else 0.0
        return self.concern(min(share, 100.0), "kernel_time", ns)

    def part_of(self, ns: float, at_most_ns: float, bound: Bound) -> Concern:
        """Return how much of a step some kernel time of the window concerns, of which a part can go at most."""
        concern = self.of_kernels(ns)
        if concern.at_most_ns is None or ns <= 0:
            return concern
        return replace(concern, at_most_ns=concern.at_most_ns * min(1.0, at_most_ns / ns), bound=bound)

    @property
    def busy_ns(self) -> float:
        """Return how long the GPU that ran most is busy in a step, at most the step; endless if no clock tells."""
        if self.waiting is None:
            return math.inf
        return self.waiting.busiest_ns(self.gpus, self.busiest)

    def within_step(self, saved: Range) -> Range:
        """Return a predicted saving, cut to the time that the GPU is busy in a step."""
        return Range(*(min(ns, self.busy_ns) for ns in (saved.low, saved.mid, saved.high)))

    def on_tensor_cores(self) -> float:
        """Return the share of float32 kernels' time that can go on this GPU's Tensor Cores, by its peak rates.

        1 if the rates are unknown. TF32 counts as float16, to which its advice leads.
        """
        gpu = self.facts.gpu
        slow, fast = (gpu and gpu.peak_flop_per_s(dtype) for dtype in ("float32", "float16"))
        return 1.0 - slow / fast if slow and fast and slow < fast else 1.0

    def _left_alone(self) -> set[Value]:
        """Return the layers of which every listed size is best left as it is."""
        sizes = self.sizes
        return {row["layer"] for row in sizes} - {row["layer"] for row in sizes if row["advice_kind"] not in LEAVE}


def summed(rows: Iterable[Row], column: str) -> float:
    """Return the sum of a column of rows; what is NA adds nothing."""
    return sum(float(row[column] or 0) for row in rows)


def idle_ns(rows: Iterable[Row]) -> float:
    """Return the time of rows of `waits` together."""
    return summed(rows, "idle_ns")


def to_change(row: Row) -> bool:
    """Return whether to change this size: it costs something, and is not set by another layer."""
    return row["advice_kind"] in (None, "change")
