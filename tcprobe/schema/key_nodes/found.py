"""`KeyNodes`: which op or range of a profile fires once in each step, how that shows, and what speaks against it."""

from __future__ import annotations

from dataclasses import dataclass

from tcprobe.schema.key_nodes.kinds import Cadence, Flaw, Merit, StepsBasis, What, WhyNone


@dataclass(frozen=True, slots=True)
class Fired:
    """An op or range, and how often it ran.

    Attributes:
        what: an op of the framework, or a range (NVTX, annotation).
        name: as the profile has it; DLProf's Op Name.
        calls: times it ran over the recording.
        op_id: DLProf's Op ID, where the source has it.
        op_type: type of the op.
        domain: NVTX domain of the range.
        gpu_ns: time of its kernels; None where the source does not tell.
    """

    what: What
    name: str
    calls: int
    op_id: str | None = None
    op_type: str | None = None
    domain: str | None = None
    gpu_ns: int | None = None

    @property
    def key(self) -> str:
        """Return what ``--key-node`` takes: the Op ID, which is of one op alone, else the name."""
        return self.op_id or self.name


@dataclass(frozen=True, slots=True)
class Candidate:
    """How an op or range stands to the steps.

    Attributes:
        fired: what it is.
        cadence: how often it fires.
        every: of `several_per_step` the calls in a step, of `per_epoch` the steps between two; else 1.
        seen: whether times show one in each step; False where only its count of calls says so.
        position: where in a step it ends, from 0, its beginning, to 1, where the last of all ends; None where no time
            tells, or only its own.
        gap_cv: standard deviation over mean of the times between two, without the warm-up; None likewise.
        merits, flaws: what speaks for it and against it.
    """

    fired: Fired
    cadence: Cadence
    every: int = 1
    seen: bool = False
    position: float | None = None
    gap_cv: float | None = None
    merits: tuple[Merit, ...] = ()
    flaws: tuple[Flaw, ...] = ()


@dataclass(frozen=True, slots=True)
class KeyNodes:
    """What a search found.

    Attributes:
        format: of the profile that was searched.
        steps: number of steps; None where nothing tells.
        basis: what says so.
        agreeing, among: of the busy ops and ranges (those with GPU time, where any has it), how many ran exactly that
            often, and how many there are.
        candidates: what fires once in each step, best first.
        others: what fires once in several steps or several times in one, most tempting first.
        why_none: why there is no candidate; None where there is one.
    """

    format: str
    steps: int | None = None
    basis: StepsBasis | None = None
    agreeing: int = 0
    among: int = 0
    candidates: tuple[Candidate, ...] = ()
    others: tuple[Candidate, ...] = ()
    why_none: WhyNone | None = None

    @property
    def best(self) -> Candidate | None:
        """Return the first candidate; None if there is none."""
        return self.candidates[0] if self.candidates else None
