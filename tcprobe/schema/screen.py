"""`FirstScreen`: what a report answers first, as data: verdict, where the step goes, what to do, how sure it is."""

from __future__ import annotations

from typing import Final, Literal, get_args

from msgspec import Struct

from tcprobe.schema.advice import Advice
from tcprobe.schema.finding import Range
from tcprobe.schema.kinds import CauseKind, ChangeKind, Evidence, KernelKind
from tcprobe.schema.statement import Statement

VerdictWord = Literal[
    "NOT MEASURED",  # no GPU ran, or no kernel of one was recorded
    "NOT APPLICABLE",  # the GPU has no Tensor Cores, or is another vendor's
    "CANNOT TELL",  # what was recorded is no usual step, or does not say
    "NOTHING TO GAIN",  # the kernels that were looked at multiply nothing
    "WAITING",  # no kernel runs for most of the step
    "NOT USED",  # products run off the Tensor Cores
    "PARTLY",  # part of the products' time is on them
    "MISALIGNED",  # they run on them, slowed by sizes that are no multiple of 16 bytes
    "SLOWLY",  # they run on them, slowed by something else
    "GOOD",  # the ops that can use them do
]
"""How well a run uses the Tensor Cores, in a word or two."""
AnswerKind = Literal[
    "no_gpu",  # no GPU was used
    "no_kernels",  # no kernel times; `reason` says why
    "not_nvidia",  # another vendor's GPU
    "no_tensor_cores",  # a GPU without any
    "autotuning",  # a library was trying its kernels
    "start_up",  # the recording is of a whole process, or of a step that waits as a first one does
    "no_products",  # no kernel of a step multiplies
    "no_matrices",  # none multiplies two matrices, as far as names tell
    "nothing_multiplies",  # likewise, of kernels that the user chose to look at
    "class_unknown",  # names do not tell the class of much kernel time
    "unrepeated",  # no kernel ran more than twice, in a capture that waits for most of its time
    "waiting",  # how long no kernel runs, and for what
    "busy",  # how long kernels run
    "idle_ops",  # the same within calls of ops
    "not_used",  # what keeps products off
    "partly",  # how much of the products' time is on Tensor Cores, and what keeps the rest off
    "misaligned",  # how much of the step
    "slowly",  # how much of the products' time, and by what
    "all_used",  # how much of the step that is; `all`: whether no other product ran, or may have
]
BarOf = Literal[
    "step",  # a step
    "capture",  # the time recorded, as no step is known
    "kernel_time",  # the time of kernels, as no clock tells of more
    "op_calls",  # the calls of ops on the GPU
]
"""What the rows of the bar add up to."""
RowKind = Literal[
    "used",  # on Tensor Cores, well or nobody knows how well
    "misaligned",  # on them, slowed by a size
    "slowly",  # on them, slowed otherwise
    "off",  # products that could use them, or whose reason is not known
    "matmul",  # products on a GPU without Tensor Cores
    "layout",  # changes of layout or type for an op that could use them
    "communication",  # between GPUs
    "others",  # kernels that multiply nothing
    "kernels",  # kernels, where nothing tells them apart
    "unknown",  # kernels of unknown class
    "copy",  # copies and sets while no kernel runs
    "idle",  # neither kernel nor copy
    "wait",  # no kernel, where copies are not told apart
]
ROW_KINDS: Final[tuple[RowKind, ...]] = get_args(RowKind)
"""The rows of the bar, in their order."""
KERNELS: Final[tuple[RowKind, ...]] = ROW_KINDS[: ROW_KINDS.index("copy")]
ON: Final[tuple[RowKind, ...]] = ("used", "misaligned", "slowly")
WAITS: Final[tuple[RowKind, ...]] = ("copy", "idle", "wait")


class Answer(Struct, frozen=True):
    """The verdict: a word, and why."""

    word: VerdictWord
    says: Statement[AnswerKind]
    more: tuple[Statement[AnswerKind], ...] = ()  # what else is true of the run


class BarRow(Struct, frozen=True):
    """One part of the bar."""

    kind: RowKind
    ns: float
    pct: float  # of the bar, 0-100; those of all rows add up to 100
    parts: tuple[tuple[KernelKind, float], ...] = ()  # what its kernels do, with the ns of each, largest first


class Bar(Struct, frozen=True):
    """Where the time goes: rows that add up to `total_ns`, the mean over the GPUs that ran kernels."""

    of: BarOf
    total_ns: float
    rows: tuple[BarRow, ...]  # without empty ones, in the order of `ROW_KINDS`
    gpus: int = 1  # over how many GPUs these are means

    def ns(self, *kinds: RowKind) -> float:
        """Return the time of the rows of these kinds."""
        return sum(row.ns for row in self.rows if row.kind in kinds)

    def pct(self, *kinds: RowKind) -> float:
        """Return their share, 0-100."""
        return sum(row.pct for row in self.rows if row.kind in kinds)


class Item(Struct, frozen=True):
    """One of the things to do first."""

    advice: Advice
    # what it saves of the bar, never more than the rows that it draws on; None where that is not known, or nothing
    saves_ns: float | None = None
    likely: bool = False  # whether that is a prediction; else it is the most that it can save
    most_ns: float | None = None  # where it is a prediction, the most that it may save, likewise
    beside: tuple[int, ...] = ()  # numbers, from 1, of items above it that draw on some of the same time


class PredictedStep(Struct, frozen=True):
    """How long the products of a step take, as predicted, with their launches."""

    change: ChangeKind | None  # what would change; None: as the run is
    ns: Range
    tf32: bool = False  # whether its float32 products run as TF32
    # layers of which a size changes too, as (layer, dimension, size, new size)
    sizes: tuple[tuple[str, str, int, int], ...] = ()


class Prediction(Struct, frozen=True):
    """What a run without a GPU would take on one."""

    gpu: str  # its name
    batch: int | None  # that the workload would take there, as it logs; None: that of the run
    steps: tuple[PredictedStep, ...]  # at least one
    at_least: bool = False  # whether some products may run more often
    evidence: Evidence | None = None  # what the time of the costliest product rests on


LimitKind = Literal[
    "predicted",  # times are predictions; what they rest on
    "basis",  # what tells which kernels use Tensor Cores, and how much of the kernel time that covers
    "steps",  # how many steps count
    "phase",  # of which phase of the run they are
    "no_steps",  # no step is marked
    "op_times",  # times are those of ops, not of kernels
    "whole_process",  # the whole process is in the figures
    "no_op_named",  # likewise, and the source names no op
    "chosen_kernels",  # kernels were measured alone, outside a step
    "gpu_unknown",  # which GPU ran is not known
    "partial",  # the run was cut off
    "clocks",  # how far apart the clocks of ranks are, or that they cannot be compared
    "noted",  # an error that the report notes
    "profiler_errors",  # errors that the profiler tells of its own recording, most of them of what no figure rests on
    "no_start_times",  # how long the GPU waits is not known
]


class FirstScreen(Struct, frozen=True):
    """What a report answers first."""

    answer: Answer
    bar: Bar | None = None  # None where no time of a GPU is known
    items: tuple[Item, ...] = ()  # at most three, most important first
    limits: tuple[Statement[LimitKind], ...] = ()  # what limits all this, most important first
    prediction: Prediction | None = None  # of a run without a GPU
    # of a step at best when all items are done that save; None of less than two, or if they draw on the same time
    left_ns: float | None = None


OFF_CAUSES: Final[frozenset[CauseKind]] = frozenset(
    {"channels", "shape", "shape_required", "library", "dtype", "tf32", "tf32_unknown", "gpu_unknown", "dtype_missing",
     "dtype_unknown"}
)  # fmt: skip
"""Causes of products that run off the Tensor Cores on a GPU that has them, or may."""
