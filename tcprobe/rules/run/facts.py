"""What else rules on runs read of a profile: its kernels, its steps, its memory, its loss scaling, as found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from tcprobe.schema.advice import Where
from tcprobe.schema.kinds import CauseKind

TINY_NS: Final = 10_000
"""A kernel shorter than this is tiny: a launch takes the host a few microseconds, so that it hardly keeps ahead of such
kernels. Source: NVIDIA, Getting Started with CUDA Graphs (a kernel of 2.9 us costs 3.8 us or more to launch)."""
Tf32Off = Literal["environment", "asked"]
"""Why TF32 was off: a variable that the run inherited, or the precision that was asked of ``tcprobe profile``."""


@dataclass(frozen=True, slots=True)
class TinyKernels:
    """The launches of the window, of all GPUs.

    Attributes:
        launches: how many.
        tiny: how many of them took less than `TINY_NS`; in a source with sums alone, those of kernels whose mean did.
        tiny_ns: time of these.
        graphs: whether most of them were launched by CUDA graphs.
    """

    launches: float
    tiny: float
    tiny_ns: float
    graphs: bool = False


@dataclass(frozen=True, slots=True)
class LayoutWork:
    """Kernels of the window that change layout or type, with the costliest op that launched one.

    Attributes:
        ns: their time.
        casts_ns: what of it changes the type alone.
        where: that op.
        op_type: its type; None if unknown.
        op_ns: its part of `ns`.
        convolutions: whether the run holds a convolution, whose layout there is to choose.
    """

    ns: float
    casts_ns: float
    where: Where
    op_type: str | None
    op_ns: float
    convolutions: bool = True


@dataclass(frozen=True, slots=True)
class LossScaling:
    """What dynamic loss scaling adds to the window.

    Attributes:
        ops: how many ops look whether gradients are finite.
        ns: kernel time of these.
        waiting_ns: time that GPUs wait after the copy of their answer to the host, summed over GPUs.
    """

    ops: int
    ns: float
    waiting_ns: float


@dataclass(frozen=True, slots=True)
class WarmUp:
    """What speaks for warm-up among the counted steps.

    Attributes:
        steps: how many count; None where no step is marked.
        slow: how many of the first ones are slower than the rest.
        slowest_ns: length of the slowest of these.
        usual_ns: median length of the others.
    """

    steps: int | None
    slow: int = 0
    slowest_ns: float | None = None
    usual_ns: float | None = None


@dataclass(frozen=True, slots=True)
class TopKernel:
    """The kernel that takes most of the kernel time.

    Attributes:
        name: its name.
        ns: its time in the window.
        share_pct: that over all kernel time, 0-100.
        cause: why that time is spent as it is, of most of it; None if unknown.
        uses_tc: yes, no or unknown.
        where: the costliest op that launched it.
        op_type: type of that op; None if unknown.
        communicates: whether it moves data between GPUs.
        unnamed_pct: share of its time for which the source names no op, 0-100.
    """

    name: str
    ns: float
    share_pct: float
    cause: CauseKind | None
    uses_tc: str
    where: Where
    op_type: str | None = None
    communicates: bool = False
    unnamed_pct: float = 0.0


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Memory of the only GPU that ran kernels.

    Attributes:
        peak_bytes: most that the workload held, as its allocator counts; what a framework reserves does not count.
        total_bytes: that of the GPU.
    """

    peak_bytes: float
    total_bytes: float

    @property
    def used_pct(self) -> float:
        """Return the peak over all memory, 0-100."""
        return 100.0 * self.peak_bytes / self.total_bytes


@dataclass(frozen=True, slots=True)
class Facts:
    """All of these; None where the profile does not tell.

    Attributes:
        tiny: its launches.
        layout: what changes layout or type.
        scaling: dynamic loss scaling in float16.
        warm_up: warm-up among the counted steps.
        top: the costliest kernel.
        memory: memory of its GPU.
        small_ns: kernel time of products too small to fill the GPU.
        epoch_steps: how often most ops ran in what a key node counts as one step.
        tf32_off: why TF32 was off.
    """

    tiny: TinyKernels | None = None
    layout: LayoutWork | None = None
    scaling: LossScaling | None = None
    warm_up: WarmUp | None = None
    top: TopKernel | None = None
    memory: MemoryUse | None = None
    small_ns: float = 0.0
    epoch_steps: int | None = None
    tf32_off: Tf32Off | None = None
