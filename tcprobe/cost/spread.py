"""The error of past predictions of similar tasks, and the time that no prediction may go below."""

from __future__ import annotations

import math
from collections.abc import Mapping

from tcprobe.cost.alignment import Library
from tcprobe.cost.constants import Constants, RateFamily, TimeFactors
from tcprobe.cost.shipped import RELATIVE, conv_owner, fitted, widened
from tcprobe.cost.tiles import Chip
from tcprobe.cost.winograd import WHY, factors_of, timed_on
from tcprobe.cost.works import Task, conv_classes
from tcprobe.hardware import Gpu

LESS_SURE = "convolutions are predicted as products, less surely"


def spread_of(
    task: Task, family: RateFamily, gpu: Gpu, chip: Chip, constants: Constants | None, library: Library = "cublas12"
) -> tuple[TimeFactors, str | None, str | None]:
    """Return measured over predicted time of similar tasks: 10th percentile, median, 90th.

    Beside it, for shipped factors of convolutions, where they come from and the id of the GPU that was timed.

    Args:
        task: a product or a convolution.
        family: family of its dtype.
        gpu: the GPU whose shipped spreads of convolutions count.
        chip: holds the spread of products.
        constants: calibrated constants, which take precedence; None for the shipped ones.
        library: cublas10 stands for the cuDNN of DeepBench, whose kernels were chosen by timing them.
    """
    if task.arithmetic != "conv":
        return chip.rate.spread, None, None
    classes = conv_classes(task, family)
    measured = {} if constants is None else constants.conv
    for name in classes:
        if f"{family}:{name}" in measured:
            return measured[f"{family}:{name}"], None, None
    found = fitted(gpu, family)
    sized = None if library == "cublas10" else _by_size(task, classes[0], found.conv, gpu)
    if sized is not None:
        return sized, WHY, timed_on(gpu)
    owner = conv_owner(found.provenance.measured_on, family)
    return next(found.conv[name] for name in classes if name in found.conv), LESS_SURE, owner


def _by_size(task: Task, name: str, known: Mapping[str, TimeFactors], gpu: Gpu) -> TimeFactors | None:
    """Return the factors of a class that was timed by size; of a gradient, what DeepBench's are over the forward's."""
    if task.convolution is None or name not in known or "winograd" not in name:
        return None
    found = factors_of(task.convolution, gpu)
    if found is None or task.kind == "forward":
        return found
    ratio = known[name][1] / known["forward:winograd"][1]
    low, likely, high = widened(found, RELATIVE, RELATIVE)
    return low * ratio, likely * ratio, high * ratio


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
