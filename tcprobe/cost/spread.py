"""The error of past predictions of similar tasks, and the time that no prediction may go below."""

from __future__ import annotations

import math

from tcprobe.cost.constants import Constants, RateFamily, TimeFactors
from tcprobe.cost.shipped import fitted
from tcprobe.cost.tiles import Chip
from tcprobe.cost.works import Task, conv_classes
from tcprobe.hardware import Gpu

LESS_SURE = "convolutions are predicted as products, less surely"


def spread_of(
    task: Task, family: RateFamily, gpu: Gpu, chip: Chip, constants: Constants | None
) -> tuple[TimeFactors, str | None]:
    """Return measured over predicted time of similar tasks (10th percentile, median, 90th), and where it comes from.

    Args:
        task: a product or a convolution.
        family: family of its dtype.
        gpu: the GPU whose shipped spreads of convolutions count.
        chip: holds the spread of products.
        constants: calibrated constants, which take precedence; None for the shipped ones.
    """
    if task.arithmetic != "conv":
        return chip.rate.spread, None
    classes = conv_classes(task, family)
    measured = {} if constants is None else constants.conv
    for name in classes:
        if f"{family}:{name}" in measured:
            return measured[f"{family}:{name}"], None
    known = fitted(gpu, family).conv
    return next(known[name] for name in classes if name in known), LESS_SURE


def least_ns(task: Task, family: RateFamily, chip: Chip) -> float:
    """Return a time that no kernel beats: its arithmetic at the peak, or its bytes beyond the cache at full bandwidth.

    None of the 225,768 public measurements that `bench/cost_model.py` reads is below it; the nearest is 2 % above.
    It is 0 for kernels that may multiply less than the shapes imply (Winograd's, Fourier's). Bytes do not count if
    a kernel may move fewer: a strided convolution need not read its whole image, a recurrent layer may keep its
    weights, 1-byte operands may be made on the way.
    """
    if task.arithmetic == "conv" and any("winograd" in name for name in conv_classes(task, family)):
        return 0.0
    conv = task.convolution
    whole = task.arithmetic == "gemm" or (conv is not None and set(conv.strides) == {1})
    moved = math.fsum(work.moved_bytes for work, _ in task.works) if whole and task.width > 1 else 0.0
    return max(task.flops / chip.flop_per_ns, (moved - chip.l2_bytes) / chip.bytes_per_ns)
