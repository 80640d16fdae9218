"""`Way`: one way to run a task, and its time: products as they are, or padded at run time by XLA or by hand."""

from __future__ import annotations

import math
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from tcprobe.cost.constants import Multiplier
from tcprobe.cost.tiles import Chip, Estimate, compute_bound, estimate
from tcprobe.cost.works import Task, conv_task, padded_work, tensors
from tcprobe.gemm.alignment import ALIGN_BYTES, next_size
from tcprobe.hardware import Gpu
from tcprobe.schema.kinds import Limit

XLA_MULTIPLE: Final = 8  # openxla/xla cublas_padding_requirements.h and cudnn_pad_for_convolutions.cc: F16 and BF16
XLA_PADS_FROM: Final = {"float16": (7, 0), "half": (7, 0), "bfloat16": (8, 0)}
"""Compute capability from which XLA pads dots of a dtype: openxla/xla, cublas_padding_requirements.h."""
XLA_GROWTH: Final = 1.35  # cudnn_pad_for_convolutions.cc: not padded if its buffers would grow by more


class Way(Struct, frozen=True):
    """One way to run a task."""

    parts: tuple[Estimate, ...]  # estimates of its products
    empty_ns: float  # time of its kernels if they were empty
    launch_ns: float = 0.0  # time of their launches, in which the GPU waits: not part of `ns`
    extra_ns: float = 0.0  # time of copies, and of kernels that the tile model does not describe
    factor: float = 1.0  # factor on the total
    measured: bool = False  # True if the time is not from the tile model, whose errors then do not apply

    @property
    def ns(self) -> float:
        """Total time of its kernels, in ns."""
        return self.factor * (math.fsum(p.ns for p in self.parts) + self.empty_ns + self.extra_ns)

    @property
    def limit(self) -> Limit:
        """What limits it: copies count as memory, and kernels that the tile model does not describe as compute."""
        if not self.parts:
            return "compute"
        if self.empty_ns + self.launch_ns >= sum(part.ns for part in self.parts) + self.extra_ns:
            return "launch"
        busy = sum(part.compute_ns for part in self.parts)
        return "compute" if busy >= sum(part.memory_ns for part in self.parts) + self.extra_ns else "memory"


Ways: TypeAlias = "tuple[Way, Way, Way]"  # the best, the likely and the worst


def way_of(task: Task, chip: Chip, penalty: tuple[float, float] = (1.0, 1.0)) -> Way:
    """Return how a chip runs a task as it is, with penalties on the compute and memory rates."""
    parts: list[Estimate] = []
    compute, memory = penalty if penalty != (1.0, 1.0) else (chip.layout, 1.0)
    for work, times in task.works:
        part = estimate(work, chip, compute ** compute_bound(work, chip), memory)
        parts += [part] if times == 1 else [replace(part, ns=part.ns * times)]
    steps = max(times for _, times in task.works)
    launches = 1 if task.arithmetic == "conv" else len(task.works)
    # the steps of a recurrent layer partly overlap their launches: half is a judgement
    starts = launches + (steps - 1) / 2
    return Way(tuple(parts), chip.rate.t0_ns * starts, chip.rate.launch_ns * starts)


def slowed(task: Task, chip: Chip, compute: Multiplier, memory: Multiplier) -> Ways:
    """Return how a chip runs a task at these rates of arithmetic and memory, the fastest first."""
    ends = (compute.high, memory.high), (compute.mid, memory.mid), (compute.low, memory.low)
    best, likely, worst = (way_of(task, chip, end) for end in ends)
    return best, likely, worst


def in_order(*ways: Way) -> Ways:
    """Return three ways, fastest first."""
    best, likely, worst = sorted(ways, key=lambda way: way.ns)
    return best, likely, worst


def with_channels(task: Task, channels: int, filters: int) -> Task | None:
    """Return a convolution padded to other channels; None if it cannot be padded."""
    conv, kind = task.convolution, task.kind
    if conv is None or kind is None or task.groups > 1:
        return None
    return conv_task(replace(conv, channels=channels, group_channels=channels, filters=filters), kind, task.units)


def copies_ns(task: Task, padded: Task, chip: Chip) -> float:
    """Return the time to copy the tensors that padding a convolution changes."""
    sizes = [tensors(one.convolution) if one.convolution else None for one in (task, padded)]
    if None in sizes:
        return 0.0
    moved = sum(a + b for a, b in zip(*filter(None, sizes), strict=True) if a != b)
    return copy_ns(float(moved) * task.units.width, chip)


def turning_ns(task: Task, chip: Chip) -> float:
    """Return the time to turn a convolution's tensors between channels-first and channels-last, each once.

    TensorFlow trains float32 convolutions channels-first, TF32 or not (grappler, generic_layout_optimizer.cc), XLA and
    PyTorch by default too. cuDNN's Tensor Core kernels read them channels-last, padded to whole 16 bytes: it copies
    what they read and write.
    """
    multiple, conv = ALIGN_BYTES // task.units.width, task.convolution
    channels, filters = (conv.channels or 0, conv.filters or 0) if conv else (0, 0)
    padded = with_channels(task, next_size(channels or 1, multiple), next_size(filters or 1, multiple)) or task
    return copy_ns(math.fsum(work.moved_bytes for one in (task, padded) for work, _ in one.works), chip)


def copy_ns(moved: float, chip: Chip) -> float:
    """Return the time to read and write `moved` bytes in total."""
    return moved / (chip.bytes_per_ns * chip.rate.bwf)


def padded_by_xla(task: Task, dtype: str, gpu: Gpu, chip: Chip) -> Ways | None:
    """Return how a task runs that XLA pads; None if XLA leaves it as it is.

    XLA pads 16-bit dots, and float16 convolutions unless a buffer would grow much.
    """
    least = XLA_PADS_FROM.get(dtype)
    if least is None or gpu.compute_capability < least or task.arithmetic == "rnn":
        return None
    if task.arithmetic == "gemm":
        return padded_products(task, chip, XLA_MULTIPLE)
    return _convolution(task, chip) if dtype != "bfloat16" else None


def padded_products(task: Task, chip: Chip, multiple: int) -> Ways:
    """Return how products run whose operands are padded with zeros at run time."""
    found = [padded_work(work, multiple, task.units.width) for work, _ in task.works]
    way = way_of(replace(task, works=tuple((work, 1) for work, _, _ in found)), chip)
    operands = copy_ns(math.fsum(moved for _, moved, _ in found), chip)
    results = copy_ns(math.fsum(moved for _, _, moved in found), chip)
    return _copied(way, operands, operands + results, chip)


def _convolution(task: Task, chip: Chip) -> Ways | None:
    conv = task.convolution
    if conv is None or not conv.channels or not conv.filters:
        return None
    few = conv.channels == 3 and conv.filters in (32, 64)
    sizes = (4, conv.filters) if few else tuple(next_size(n, XLA_MULTIPLE) for n in (conv.channels, conv.filters))
    padded = with_channels(task, *sizes)
    before, after = tensors(conv), tensors(padded.convolution) if padded and padded.convolution else None
    if padded is None or before is None or after is None:
        return None
    if not few and any(b > XLA_GROWTH * a for a, b in zip(before, after, strict=True)):
        return None
    copies = copies_ns(task, padded, chip)
    return _copied(way_of(padded, chip), copies, copies, chip)


def _copied(way: Way, likely: float, all_copies: float, chip: Chip) -> Ways:
    """At best the copies are fused into the neighbouring ops; at worst each is a kernel.

    The result of a product is likely sliced by the op that reads it. Padding at run time that copies only the operands
    was measured at 1.09-1.19 times the padded product (autoheuristic-datasets, A100, 16 bits: the gain of a larger
    layer over that of padding, 2.25 / 2.02, 1.49 / 1.25, 2.43 / 2.23, 1.53 / 1.39).
    """
    empty, launch = way.empty_ns + 3 * chip.rate.t0_ns, way.launch_ns + 3 * chip.rate.launch_ns
    worst = replace(way, extra_ns=all_copies, empty_ns=empty, launch_ns=launch)
    return way, replace(way, extra_ns=likely), worst
