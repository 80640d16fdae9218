"""How a product is padded at run time whose sizes do not suit the Tensor Cores: by XLA, or by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

from tcprobe.cost.tiles import Chip
from tcprobe.cost.ways import Way, Ways, copies_ns, copy_ns, way_of, with_channels
from tcprobe.cost.works import Task, padded_work, tensors
from tcprobe.gemm.alignment import next_size
from tcprobe.hardware import Gpu

XLA_MULTIPLE: Final = 8  # openxla/xla cublas_padding_requirements.h and cudnn_pad_for_convolutions.cc: F16 and BF16
XLA_PADS_FROM: Final = {"float16": (7, 0), "half": (7, 0), "bfloat16": (8, 0)}
"""Compute capability from which XLA pads dots of a dtype: openxla/xla, cublas_padding_requirements.h."""
XLA_GROWTH: Final = 1.35  # cudnn_pad_for_convolutions.cc: not padded if its buffers would grow by more


def padded_by_xla(task: Task, dtype: str, gpu: Gpu, chip: Chip, width: int) -> Ways | None:
    """Return how a task runs that XLA pads, `width` bytes per element; None if XLA leaves it as it is.

    XLA pads 16-bit dots, and float16 convolutions unless a buffer would grow much.
    """
    least = XLA_PADS_FROM.get(dtype)
    if least is None or gpu.compute_capability < least or task.arithmetic == "rnn":
        return None
    if task.arithmetic == "gemm":
        return padded_products(task, chip, width, XLA_MULTIPLE)
    return _convolution(task, chip, width) if dtype != "bfloat16" else None


def padded_products(task: Task, chip: Chip, width: int, multiple: int) -> Ways:
    """Return how products run whose operands are padded with zeros at run time, `width` bytes per element."""
    found = [padded_work(work, multiple, width) for work, _ in task.works]
    way = way_of(replace(task, works=tuple((work, 1) for work, _, _ in found)), chip)
    operands = copy_ns(math.fsum(moved for _, moved, _ in found), chip)
    results = copy_ns(math.fsum(moved for _, _, moved in found), chip)
    return _copied(way, operands, operands + results, chip)


def _convolution(task: Task, chip: Chip, width: int) -> Ways | None:
    conv = task.convolution
    if conv is None or not conv.channels or not conv.filters:
        return None
    if conv.channels == 3 and conv.filters in (32, 64):
        padded = with_channels(task, 4, conv.filters, width)
    else:
        more = next_size(conv.channels, XLA_MULTIPLE), next_size(conv.filters, XLA_MULTIPLE)
        padded = with_channels(task, *more, width)
        before, after = tensors(conv), tensors(padded.convolution) if padded and padded.convolution else None
        if before is None or after is None or any(b > XLA_GROWTH * a for a, b in zip(before, after, strict=True)):
            return None
    if padded is None:
        return None
    copies = copies_ns(task, padded, width, chip)
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
