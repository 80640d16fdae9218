"""`KeyNodes`: which op or range of a profile fires once in each step, how that shows, and what speaks against it."""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

What = Literal["op", "range"]
Cadence = Literal["per_step", "several_per_step", "per_epoch", "irregular"]
"""`per_epoch` fires once in a whole number of steps: an epoch, or a step of accumulated gradients."""
StepsBasis = Literal["marks", "probe", "calls"]
"""What says how many steps there are: the profile's marks, the probe's count, or nothing but how often ops ran."""
Merit = Literal["at_end", "optimizer_sum", "update", "counter"]
Flaw = Literal[
    "one_replica", "loop_body", "conditional", "xla_cluster", "runtime", "cut", "early", "no_gpu_time", "uneven"
]
SERIOUS: Final[tuple[Flaw, ...]] = ("one_replica", "loop_body", "conditional", "xla_cluster", "runtime")
"""Flaws with which an op that fired once in each step may not do so in the next run, or not under that name."""
WhyNone = Literal["no_calls", "few_steps", "numbered_ranges", "nothing_regular"]


class Fired(Struct, frozen=True):
    """An op or range, and how often it ran."""

    what: What  # an op of the framework, or a range (NVTX, annotation)
    name: str  # as the profile has it; DLProf's Op Name
    calls: int  # times it ran over the recording
    op_id: str | None = None  # DLProf's Op ID, where the source has it
    op_type: str | None = None  # type of the op
    domain: str | None = None  # NVTX domain of the range
    gpu_ns: int | None = None  # time of its kernels; None where the source does not tell

    @property
    def key(self) -> str:
        """Return what ``--key-node`` takes: the Op ID, which is of one op alone, else the name."""
        return self.op_id or self.name


class Candidate(Struct, frozen=True):
    """How an op or range stands to the steps."""

    fired: Fired  # what it is
    cadence: Cadence  # how often it fires
    every: int = 1  # of `several_per_step` the calls in a step, of `per_epoch` the steps between two; else 1
    seen: bool = False  # whether times show one in each step; False where only its count of calls says so
    # where in a step it ends, from 0, its beginning, to 1, where the last of all ends; None where no time tells, or
    # only its own
    position: float | None = None
    # standard deviation over mean of the times between two, without the warm-up; None likewise
    gap_cv: float | None = None
    # merits, flaws: what speaks for it and against it.
    merits: tuple[Merit, ...] = ()
    flaws: tuple[Flaw, ...] = ()


class KeyNodes(Struct, frozen=True):
    """What a search found."""

    format: str  # of the profile that was searched
    steps: int | None = None  # number of steps; None where nothing tells
    basis: StepsBasis | None = None  # what says so
    # agreeing, among: of the busy ops and ranges (those with GPU time, where any has it), how many ran exactly that
    # often, and how many there are.
    agreeing: int = 0
    among: int = 0
    candidates: tuple[Candidate, ...] = ()  # what fires once in each step, best first
    others: tuple[Candidate, ...] = ()  # what fires once in several steps or several times in one, most tempting first
    why_none: WhyNone | None = None  # why there is no candidate; None where there is one

    @property
    def best(self) -> Candidate | None:
        """Return the first candidate; None if there is none."""
        return self.candidates[0] if self.candidates else None
