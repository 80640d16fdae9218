"""How long the GPU waits in a step and for what, the autotuning that a window holds, and a capture's start-up."""

from __future__ import annotations

from typing import Final, Literal, get_args

from msgspec import Struct

HostWork = Literal[
    "copy", "set", "profiler", "compile", "input", "communicate", "copy_call", "synchronise", "op", "launch",
    "executor", "python", "queued", "outside", "range", "unknown",
]  # fmt: skip
HOST_WORK: Final[dict[HostWork, str]] = {
    "copy": "copies between host and GPU",
    "set": "copies within the GPU",
    "profiler": "the profiler itself",
    "compile": "tracing, compiling or autotuning",
    "input": "the input pipeline",
    "communicate": "other GPUs or processes",
    "copy_call": "calls that copy nothing",
    "synchronise": "the host, which waits for the GPU",
    "op": "an op on the host",
    "launch": "launches",
    "executor": "the executor of ops",
    "python": "Python between the calls",
    "queued": "pauses between kernels in its queue",
    "outside": "what runs between the steps",
    "range": "what the host does in marked ranges",
    "unknown": "not recorded",
}
"""What the GPU waits for."""
CALL: Final = "call"
"""What an event of the host shows that is an outermost call of the framework from Python."""
EVENT_WORK: Final = (*HOST_WORK, CALL)
"""What an event of the host may show; ``unknown`` where its name does not tell what the host does."""
MOST_GAPS: Final = 20
"""Rows of `gaps` of one GPU: the longest."""
SHORT_NS: Final = 100_000
"""Stretches without a kernel that are shorter are the pace at which the host launches kernels."""
StepLength = Literal[
    # from the start of a step to the start of the next, the median (of unlike ones the mean): of steps outside the
    # profiler, if the run timed some, else of the window
    "between steps",
    "marked step",  # from the start to the end of the mark of a step
    "reported",  # as the profiler reports it
    "capture",  # the span of the capture, as no step is known
]
STEP_LENGTHS: Final[tuple[StepLength, ...]] = get_args(StepLength)
"""What the length of a step rests on."""


class Waiting(Struct, frozen=True):
    """How long the GPU waits in a step of the window; the mean over the GPUs that ran kernels."""

    step_ns: float  # length of a step; of the whole capture if `length` is ``capture``
    length: StepLength  # what `step_ns` rests on
    # time in a step during which at least one kernel ran, 0 to `step_ns`; copies do not count. If the profiler reports
    # neither that nor when kernels ran, the summed time of the kernels, which may be longer.
    busy_ns: float
    idle_ns: float  # the rest of the step: what the end of all waiting could save at most

    def busiest_ns(self, gpus: int, busiest: float) -> float:
        """Return how long the GPU that ran most is busy in a step, at most the step.

        Args:
            gpus: GPUs that ran kernels, at least 1.
            busiest: share of all kernel time on that GPU, 1 / `gpus` to 1.
        """
        return min(self.step_ns, self.busy_ns * gpus * busiest)

    @property
    def idle_pct(self) -> float:
        """Return the share of the step in which the GPU waits, 0-100."""
        return 100.0 * self.idle_ns / self.step_ns if self.step_ns > 0 else 0.0


class Tuning(Struct, frozen=True):
    """Autotuning within the window: a library tried several kernels for one op."""

    ops: int  # ops that were tuned; of kernels without an op, calls
    kernels: int  # their launches
    sum_ns: float  # kernel time of these launches
    share_pct: float  # that time as a share of the window's kernel time, 0-100
    worst_op: str | None  # the op with the most launches a call; None if the source does not name it
    worst_calls: int  # its launches in one call


class StartUp(Struct, frozen=True):
    """What a capture begins with and no figure counts, where no step is known."""

    length_ns: int  # from the first activity of a GPU to the first kernel that counts
    kernels: int  # those that do not count
    copies: int  # copies and sets that do not count
    basis: Literal["units", "pause"]  # what it ends with: the first unit that repeats, a long pause
