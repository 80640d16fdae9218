"""`Advice`: one thing to do about a run, with what it concerns and what it can save of a step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, get_args

from msgspec import Struct

from tcprobe.schema.finding import Range
from tcprobe.schema.kinds import Blocker, SizeAdvice
from tcprobe.schema.statement import Statement
from tcprobe.schema.waits import StepLength

if TYPE_CHECKING:
    from tcprobe.schema.columns import Row

AdviceKind = Literal[
    "feed_gpu",  # end what the GPU waits for
    "profile_later",  # profile steps after autotuning
    "use_float32",  # compute in float32 or less instead of float64
    "use_float16",  # use float16 instead of bfloat16, which the GPU's Tensor Cores do not take
    "mixed_precision",  # train in mixed precision
    "allow_tf32",  # allow TF32
    "check_tf32",  # make sure that TF32 is allowed
    "use_gpu",  # run on a GPU with Tensor Cores
    "align_sizes",  # make sizes multiples of 8
    "change_size",  # change sizes of a layer
    "slice_filters",  # compute 8 filters of a convolution and keep the first ones
    "library",  # let the library choose another kernel: channels, layout, larger sizes, XLA
    "name_ops",  # record which ops the kernels belong to
    "fuse_kernels",  # launch fewer and longer kernels
    "fill_ops",  # the same, of a source that tells alone how long the GPU is idle within ops
    "keep_layout",  # keep one layout and one type, so that nothing changes them
    "fix_scale",  # take a fixed loss scale instead of a dynamic one
    "skip_warm_up",  # leave the first steps out of those that count
    "profile_steps",  # profile several steps after warm-up
    "profile_usual_steps",  # the same, before all else: the GPU waits for what a start of training does too
    "change_kernel",  # change what one kernel that dominates does, or how
    "larger_batch",  # take a larger batch, for which there is memory
    "key_node",  # choose a key node that runs once a step
    "halve_precision",  # train in mixed precision although TF32 runs on Tensor Cores, where that is predicted to pay
    "fuse_chain",  # make one kernel of several that multiply nothing and follow one another
    "fill_waves",  # change sizes so that the last wave of a product's blocks is full
    "finite_loss",  # find out why the loss is no finite number any more
    "align_kernel",  # find the sizes that make a kernel load less than 16 bytes at once, and align them
]
REMEDIES: Final[tuple[AdviceKind, ...]] = get_args(AdviceKind)
"""What to do about a run."""
ShareOf = Literal[
    "step",  # the length of a step
    "kernel_time",  # the time of all kernels
    "flops",  # the FLOPs of a step's GEMM-like ops
    "known_flops",  # the FLOPs that are known of them, where some run an unknown number of times
    "products",  # the predicted time of a step's products
    "op_spans",  # the calls of ops on the GPU, each from its first to its last use of it
]
SHARES: Final[tuple[ShareOf, ...]] = get_args(ShareOf)
"""What a share is a share of."""
Bound = Literal[
    "idle",  # the time that the GPU waits
    "kernel time",  # all of the kernels' time
    "launches",  # the time of tiny kernels and of the waiting between kernels
    "loss scaling",  # the time of its ops, and of the waiting for their answer as far as the profile shows it
    "small batch",  # the time that the GPU waits, and that of products too small to fill it
    "bandwidth",  # the kernels' time less what one kernel in place of several takes to move what is left
    "aligned rates",  # the kernels' time less what they take at the rates that large aligned products were timed at
    "tile rates",  # the kernels' time less what they take at the rates that tiles like theirs reach on Tensor Cores
    "full waves",  # what the empty part of the last waves takes, if blocks take the same time in it
    "peak rates",  # the kernels' time less what they take at the ratio of the GPU's peak rates
]
BOUNDS: Final[tuple[Bound, ...]] = get_args(Bound)
"""What the most that an item can save is: a strict bound, except by rates, which kernels need not reach alike, and
of loss scaling, of which a profile shows a part."""


WAITING: Final = "(waiting)"
"""What an item draws on whose saving is time that the GPU waits, followed by the kind of work that it waits for."""
LAUNCHES: Final = "(launches)"
"""Likewise, time of tiny kernels."""
COPIES: Final = "(copies)"
"""Likewise, time of kernels that copy, cast or change the layout."""


class SizeChange(Struct, frozen=True):
    """A dimension of a layer, its size and the next aligned size."""

    dimension: str
    size: int
    next_size: int


class Where(Struct, frozen=True):
    """What an item concerns; if several ops, the costliest of them."""

    layer: str | None = None  # path of the layer
    op: str | None = None  # path of the op
    pass_: str | None = None  # forward, dgrad, wgrad or other
    source: str | None = None  # file:line where the layer was constructed


class Concern(Struct, frozen=True):
    """How much of a step an item concerns: a bound on what it can save."""

    share_pct: float  # share of the run, 0-100
    share_of: ShareOf  # what that is a share of
    # kernel time in a step, summed over GPUs; None if that time or the number of steps is unknown
    kernel_ns: float | None = None
    at_most_ns: float | None = None  # what it can save of a step at most; None if no clock tells how long a step takes
    step_ns: float | None = None  # length of a step; None if unknown
    # what `step_ns` rests on; None if that clock is not the one of the kernels, or there is none
    length: StepLength | None = None
    bound: Bound = "kernel time"  # what `at_most_ns` is
    gpus: int = 1  # over how many GPUs `kernel_ns` is a sum


class Saving(Struct, frozen=True):
    """What an item is predicted to save."""

    ns: Range  # time of a step: least, likely, most
    pct: float  # the likely time as a percentage of `of`
    of: ShareOf  # kernel time, the step's products or the step
    calibrated: bool  # whether it comes from a calibration of the GPU
    may_cost: bool = False  # whether the prediction's range holds a longer step too, where `ns` leaves that out


class Advice(Struct, frozen=True):
    """One thing to do about a run, as one of the rules TC3xx says."""

    code: str  # code of the rule
    says: Statement[AdviceKind]  # what to do and why; its kind is one of `REMEDIES`
    concern: Concern  # how much of a step it concerns
    where: Where = Where()  # what it concerns
    saving: Saving | None = None  # predicted saving; None if only the bound of `concern` is known
    blocker: Blocker | None = None  # what keeps the costliest op off the Tensor Cores
    sizes: tuple[SizeChange, ...] = ()  # sizes to change; for ``slice_filters`` the filters
    effect: SizeAdvice | None = None  # what the first of these sizes costs
    # what its saving is a part of: ops and layers by name, `WAITING` and what is waited for, `LAUNCHES`; empty where
    # that is not told
    draws_on: frozenset[str] = frozenset()
    # codes of the items above it that draw on some of the same, so that savings do not add up
    beside: tuple[str, ...] = ()

    @property
    def kind(self) -> AdviceKind:
        """Return what to do, as a kind."""
        return self.says.kind

    @property
    def saves_ns(self) -> float | None:
        """Return what it likely saves of a step, else what it can save at most; None if neither is known."""
        return self.concern.at_most_ns if self.saving is None else self.saving.ns.mid

    @property
    def step_pct(self) -> float | None:
        """Return `saves_ns` as a share of the step, 0-100 (below 0 where it may cost); None if unknown."""
        if self.saves_ns is None or self.concern.length is None or not self.concern.step_ns:
            return None
        return 100.0 * self.saves_ns / self.concern.step_ns

    def figures(self) -> Row:
        """Return its figures and its place as columns of the table `advice`."""
        concern, where = self.concern, self.where
        return {
            "share_pct": concern.share_pct, "share_of": concern.share_of, "step_pct": self.step_pct,
            "at_most_ns": concern.at_most_ns, "bound": None if concern.at_most_ns is None else concern.bound,
            "layer": where.layer, "op": where.op, "pass": where.pass_, "source": where.source,
            "kernel_ns": concern.kernel_ns, "step_ns": concern.step_ns, "step_length": concern.length,
            "beside": ", ".join(self.beside) or None, **self._saved(),
        }  # fmt: skip

    def _saved(self) -> Row:
        if (saving := self.saving) is None:
            return dict.fromkeys(("saving_low_ns", "saving_ns", "saving_high_ns", "saving_pct", "saving_of"))
        low, likely, high = saving.ns.low, saving.ns.mid, saving.ns.high
        row: Row = {"saving_low_ns": low, "saving_ns": likely, "saving_high_ns": high}
        return {**row, "saving_pct": saving.pct, "saving_of": saving.of}
