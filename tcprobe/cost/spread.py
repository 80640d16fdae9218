"""How far predictions of such tasks have been off, and the time that no prediction may go below."""

from __future__ import annotations

import math

from tcprobe.cost.constants import Constants, RateFamily, Spread
from tcprobe.cost.shipped import fitted
from tcprobe.cost.tiles import Chip
from tcprobe.cost.works import Task, conv_classes
from tcprobe.hardware import Gpu

LESS_SURE = "convolutions are predicted as products, less surely"


def spread_of(
    task: Task, family: RateFamily, gpu: Gpu, chip: Chip, constants: Constants | None
) -> tuple[Spread, str | None]:
    """Return measured over predicted time of such tasks: 10th percentile, median, 90th; and what it rests on.

    Args:
        task: a product or a convolution.
        family: of its dtype.
        gpu: whose shipped spreads of convolutions count.
        chip: its spread is a product's.
        constants: calibrated ones, which go first; None for those shipped.
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
    """Return a time that no kernel beats: its arithmetic at the peak, or what the cache cannot hold at full bandwidth.

    None of the 225,768 public measurements that `bench/cost_model.py` reads is below it; the nearest is 2 % above.
    0 for arithmetic that may be less than the shapes count (Winograd's, Fourier's). A strided convolution need not
    read all of its image, a recurrent layer may keep its weights, 1-byte operands may be made on the way: of these
    only the arithmetic counts.
    """
    if task.arithmetic == "conv" and any("winograd" in name for name in conv_classes(task, family)):
        return 0.0
    conv = task.convolution
    whole = task.arithmetic == "gemm" or (conv is not None and set(conv.strides) == {1})
    moved = math.fsum(work.moved_bytes for work, _ in task.works) if whole and task.width > 1 else 0.0
    return max(task.flops / chip.flop_per_ns, (moved - chip.l2_bytes) / chip.bytes_per_ns)
