"""`Way`: one way to run a task, and its time: products, launches and extra copies."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TypeAlias

from tcprobe.cost.tiles import Chip, Estimate, compute_bound, estimate
from tcprobe.cost.works import Task, conv_task, padded_conv, tensors


@dataclass(frozen=True, slots=True)
class Way:
    """One way to run a task.

    Attributes:
        parts: estimates of its products.
        empty_ns: time of its kernels if they were empty.
        launch_ns: time of their launches, in which the GPU waits: not part of `ns`.
        extra_ns: time of copies, and of kernels that the tile model does not describe.
        factor: factor on the total.
        measured: True if the time is not from the tile model, whose errors then do not apply.
    """

    parts: tuple[Estimate, ...]
    empty_ns: float
    launch_ns: float = 0.0
    extra_ns: float = 0.0
    factor: float = 1.0
    measured: bool = False

    @property
    def ns(self) -> float:
        """Total time of its kernels, in ns."""
        return self.factor * (math.fsum(p.ns for p in self.parts) + self.empty_ns + self.extra_ns)


Ways: TypeAlias = "tuple[Way, Way, Way]"  # the best, the likely and the worst


def way_of(task: Task, chip: Chip, penalty: tuple[float, float] = (1.0, 1.0)) -> Way:
    """Return how a chip runs a task as it is, with penalties on the compute and memory rates."""
    parts: list[Estimate] = []
    for work, times in task.works:
        compute, memory = penalty
        part = estimate(work, chip, compute ** compute_bound(work, chip), memory)
        parts += [part] if times == 1 else [replace(part, ns=part.ns * times)]
    steps = max(times for _, times in task.works)
    launches = 1 if task.arithmetic == "conv" else len(task.works)
    # the steps of a recurrent layer partly overlap their launches: half is a judgement
    starts = launches + (steps - 1) / 2
    return Way(tuple(parts), chip.rate.t0_ns * starts, chip.rate.launch_ns * starts)


def in_order(*ways: Way) -> Ways:
    """Return three ways, fastest first."""
    best, likely, worst = sorted(ways, key=lambda way: way.ns)
    return best, likely, worst


def with_channels(task: Task, channels: int, filters: int, width: int) -> Task | None:
    """Return a convolution padded to other channels, `width` bytes per element; None if it cannot be padded."""
    conv, kind = task.convolution, task.kind
    if conv is None or kind is None or task.groups > 1:
        return None
    return conv_task(padded_conv(conv, channels, filters), kind, width)


def copies_ns(task: Task, padded: Task, width: int, chip: Chip) -> float:
    """Return the time to copy the tensors that padding a convolution changes, `width` bytes per element."""
    before = tensors(task.convolution) if task.convolution else None
    after = tensors(padded.convolution) if padded.convolution else None
    if before is None or after is None:
        return 0.0
    moved = sum(a + b for a, b in zip(before, after, strict=True) if a != b)
    return copy_ns(float(moved) * width, chip)


def copy_ns(moved: float, chip: Chip) -> float:
    """Return the time to read and write `moved` bytes in total."""
    return moved / (chip.bytes_per_ns * chip.rate.bwf)
