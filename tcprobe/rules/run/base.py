"""What a rule on a run reads and returns: `RunSubject`, `RunRule`, and how much of a step something concerns.

Bounds are those of docs/figures.md, section Advice: no item can save more of a step than the GPU is busy in it, or
than it waits in it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from tcprobe.rules.base import RuleDoc, Says
from tcprobe.rules.run.facts import Facts
from tcprobe.schema.advice import Advice, AdviceKind, Bound, Concern, ShareOf, Where
from tcprobe.schema.changes.whatif import WhatIf
from tcprobe.schema.finding import Range
from tcprobe.schema.kinds import LEAVE, Blocker, BlockerKind
from tcprobe.schema.statement import FieldValue, say
from tcprobe.schema.waits import Tuning, Waiting

if TYPE_CHECKING:
    from tcprobe.hardware import Gpu
    from tcprobe.rules.run.words import Framework
    from tcprobe.schema.columns import Row, Value

SHAPES: Final[tuple[BlockerKind, ...]] = ("shape", "shape_required")
CHOSEN: Final[tuple[BlockerKind, ...]] = (*SHAPES, "library")
VECTOR: Final = re.compile(r"gemv", re.IGNORECASE)  # a matrix times a vector is bound by memory: no size changes that
SizeRow: TypeAlias = "Row"
"""A row of `bad_sizes`."""
GapRow: TypeAlias = "Row"
"""A row of `gaps`."""


@dataclass(frozen=True, slots=True)
class OffOp:
    """One op off the Tensor Cores.

    Attributes:
        row: its row of `ops`, else of `gemms`.
        blocker: what keeps it off.
        weight: ns of kernel time in the window, else FLOPs of a step.
    """

    row: Row
    blocker: Blocker
    weight: float

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
        return Where(text(row["layer"]), text(row["op"]), text(row["pass"]), text(row["source"]))


def names_of(ops: Sequence[OffOp]) -> frozenset[str]:
    """Return the ops, and their layers, for what asks whether two items draw on the same time."""
    return frozenset(name for op in ops for name in (str(op.row["op"]), op.place))


@dataclass(frozen=True, slots=True)
class RunSubject:
    """What a rule on a run may read.

    Attributes:
        off: the ops off the Tensor Cores, costliest first.
        total: what their weights are shares of; 0 if that is unknown.
        measured: True if weights are kernel time, False if they are FLOPs.
        bounded: True if these are only what is known of a step.
        unnamed_ns: kernel time of the window off the Tensor Cores whose ops the source does not name, without kernels
            whose names tell that no product has them (a framework's element-wise ones, communication).
        unnamed_kernel: the costliest of these whose name tells that it multiplies, if there is one.
        kernel_ns: kernel time of the window.
        sizes: the rows of `bad_sizes`, costliest first.
        waiting: how long a step takes and the GPU waits in it; None if no clock tells.
        gaps: the rows of `gaps`, longest first.
        idle_ns: time of the window without a kernel, summed over GPUs; None if no clock tells.
        short_ns: what of it passes in stretches shorter than those of `gaps`; 0 if unknown.
        copy_ns: what of it passes while copies or sets run, in `gaps` or not; 0 if unknown.
        tuning: the autotuning that the window holds.
        gpu: the GPU that ran; None if it is unknown or if several models ran.
        gpus: number of GPUs that are known to have run kernels, at least 1.
        busiest: share of the kernel time on the GPU that ran most of it, 1 / `gpus` to 1.
        steps: steps in the window, or 1 if the whole capture stands for a step; None if unknown.
        step_ns: length of a step by any clock; None if unknown.
        framework: what the user's code is written with, if known.
        compiled: whether XLA compiled the step.
        what_ifs: changes and the steps predicted with them.
        facts: what else is known of its kernels, steps, memory and loss scaling.
    """

    off: tuple[OffOp, ...] = ()
    total: float = 0.0
    measured: bool = False
    bounded: bool = False
    unnamed_ns: float = 0.0
    unnamed_kernel: str | None = None
    kernel_ns: float = 0.0
    sizes: tuple[SizeRow, ...] = ()
    waiting: Waiting | None = None
    gaps: tuple[GapRow, ...] = ()
    idle_ns: float | None = None
    short_ns: float = 0.0
    copy_ns: float = 0.0
    tuning: Tuning | None = None
    gpu: Gpu | None = None
    gpus: int = 1
    busiest: float = 1.0
    steps: float | None = None
    step_ns: float | None = None
    framework: Framework | None = None
    compiled: bool = False
    what_ifs: tuple[WhatIf, ...] = ()
    facts: Facts = field(default_factory=Facts)

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

    def few_filters(self) -> list[SizeRow]:
        """Return the rows of convolutions of few filters: computing more and slicing them off may be faster."""
        return [row for row in self.sizes if row["advice_kind"] == "slice"]

    def item(
        self, code: str, kind: AdviceKind, ops: Sequence[OffOp], shrinks: float = 1.0, **fields: FieldValue
    ) -> Advice:
        """Return the item on these ops, at least one; `shrinks` as in `concern_of`, `fields` for its sentence."""
        concern = self.concern_of(ops, shrinks)
        return Advice(code, say(kind, **fields), concern, ops[0].where, blocker=ops[0].blocker, draws_on=names_of(ops))

    def of_step(self, at_most_ns: float, bound: Bound, kernel_ns: float | None = None) -> Concern:
        """Return how much of a step an item concerns that can save so much of it; a step's length must be known.

        Args:
            at_most_ns: of a step; cut to the step.
            bound: what that is.
            kernel_ns: kernel time in a step, summed over GPUs.
        """
        step = 0.0 if self.waiting is None else self.waiting.step_ns
        most = max(0.0, min(at_most_ns, step))
        length = None if self.waiting is None else self.waiting.length
        return Concern(100.0 * most / step if step else 0.0, "step", kernel_ns, most, step or None, length, bound)

    def in_step(self, window_ns: float) -> float | None:
        """Return a kernel time of the window, summed over GPUs, as that of a step on the GPU that ran most."""
        return window_ns / self.steps * self.busiest if self.steps else None

    def waits_in_step(self, window_ns: float) -> float | None:
        """Return a time of waiting in the window, summed over GPUs, as that of a step on one of them."""
        return window_ns / self.steps / self.gpus if self.steps else None

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
        if self.waiting is None or spent_ns is None:
            return Concern(share, of, each, None, self.step_ns, self.waiting.length if self.waiting else None)
        busy = self.busy_ns
        alone = busy * share / 100.0 if each is None else each * self.busiest
        bound: Bound = "kernel time" if shrinks == 1.0 else "peak rates"
        return Concern(share, of, each, shrinks * min(alone, busy), self.waiting.step_ns, self.waiting.length, bound)

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
        slow, fast = (self.gpu and self.gpu.peak_flop_per_s(dtype) for dtype in ("float32", "float16"))
        return 1.0 - slow / fast if slow and fast and slow < fast else 1.0

    def _left_alone(self) -> set[Value]:
        """Return the layers of which every listed size is best left as it is."""
        sizes = self.sizes
        return {row["layer"] for row in sizes} - {row["layer"] for row in sizes if row["advice_kind"] not in LEAVE}


class RunRule(Protocol):
    """One rule on a run.

    Attributes:
        DOC: its documentation.
        SAYS: for each kind that it yields, what to do and why; the report adds what every item has.
    """

    DOC: RuleDoc
    SAYS: Says

    def check(self, subject: RunSubject) -> Iterator[Advice]:
        """Yield what to do, in any order."""
        ...


def to_change(row: SizeRow) -> bool:
    """Return whether to change this size: it costs something, and is not set by another layer."""
    return row["advice_kind"] in (None, "change")


def text(value: Value) -> str | None:
    """Return a name of a row as text; None if it has none."""
    return None if value is None else str(value)
