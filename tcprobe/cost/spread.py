"""The error of past predictions of similar tasks, of their sums, and the time that no prediction may go below."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from tcprobe.cost.alignment import Library
from tcprobe.cost.constants import (
    RELATIVE,
    Constants,
    RunsThrough,
    TimeFactors,
    conv_owner,
    fitted,
    since,
    widened,
    wider,
)
from tcprobe.cost.tiles import Chip, Work, estimate
from tcprobe.cost.works import Task
from tcprobe.gemm.conv import Convolution
from tcprobe.hardware import Gpu
from tcprobe.schema.finding import Range


def spread_of(
    task: Task,
    gpu: Gpu,
    chip: Chip,
    constants: Constants | None,
    library: Library = "cublas12",
    through: RunsThrough = "framework",
) -> tuple[TimeFactors, str | None]:
    """Return measured over predicted time of similar tasks: 10th percentile, median, 90th.

    Beside it, for shipped factors of convolutions, the id of the GPU that was timed.

    Args:
        task: a product or a convolution.
        gpu: the GPU whose shipped spreads of convolutions count.
        chip: holds the spread of products.
        constants: calibrated constants, which take precedence; None for the shipped ones.
        library: cublas10 stands for the cuDNN of DeepBench, whose kernels were chosen by timing them.
        through: what runs the products.
    """
    family, classes = task.units.family, task.classes
    if task.arithmetic != "conv":
        calibrated = constants is not None and family in constants.rates
        batched = None if calibrated else fitted(gpu, family, through).batched
        return (chip.rate.spread if batched is None else _in_float32(task.works[0][0], chip, batched)), None
    if constants is not None:
        for name in classes:
            if (own := constants.conv.get(f"{family}:{name}")) is not None:
                return own, None
    found = fitted(gpu, family, through)
    sized = None if library == "cublas10" else _by_size(task, classes[0], found.conv, gpu)
    if sized is not None:
        return sized, since(gpu, _TIMED)
    owner = conv_owner(found.provenance.measured_on, family)
    return next(found.conv[name] for name in classes if name in found.conv), owner


FEW: Final = 32
"""Rows or columns of a product: what has so few was hardly timed."""
_SHORT_NS: Final = 1e5


def _in_float32(work: Work, chip: Chip, batched: TimeFactors) -> TimeFactors:
    """Return the spread of a product on CUDA cores; wider, a judgement, for those that were hardly timed."""
    spread = batched if work.batch > 1 else chip.rate.spread
    hardly_timed = min(work.m, work.n) <= FEW or estimate(work, chip).ns < _SHORT_NS
    return widened(spread, RELATIVE) if hardly_timed else spread


def _by_size(task: Task, name: str, known: Mapping[str, TimeFactors], gpu: Gpu) -> TimeFactors | None:
    """Return the factors of a class that was timed by size; of a gradient, what DeepBench's are over the forward's."""
    if task.convolution is None or name not in known or "winograd" not in name:
        return None
    found = _factors_of(task.convolution, gpu)
    if found is None or task.kind == "forward":
        return found
    ratio = known[name][1] / known["forward:winograd"][1]
    low, likely, high = widened(found, RELATIVE)
    return low * ratio, likely * ratio, high * ratio


SHARED: Final = 0.4
"""Share of the variance of products' errors that is common to all of a step: of its software, its GPU, its sizes.

The least tenth at which the range of a sum holds 80 % of the sums of 10 and of 40 fitted products, whether a GPU's own
constants predict them or those that another GPU lends (`python bench/fit.py sums`).
"""


def pooled(parts: Iterable[Range], shared: float = SHARED) -> Range:
    """Return the sum of times whose errors are in part their own, and then in part cancel out.

    Args:
        parts: times of distinct products; equal ones are one part, as one kernel runs them all.
        shared: share of the variance that is common to all parts; 1 adds end to end.
    """
    found = list(parts)
    ends = [[part.mid - part.low for part in found], [part.high - part.mid for part in found]]
    less, more = (math.sqrt(shared * sum(end) ** 2 + (1 - shared) * sum(one * one for one in end)) for end in ends)
    mid = math.fsum(part.mid for part in found)
    return Range(mid - less, mid, mid + more)


def least_ns(task: Task, chip: Chip) -> float:
    """Return a time that no kernel beats: its arithmetic at the peak, or its bytes beyond the cache at full bandwidth.

    None of the 225,768 public measurements that `bench/cost_model.py` reads is below it; the nearest is 2 % above.
    It is 0 for kernels that may multiply less than the shapes imply (Winograd's, Fourier's). Bytes do not count if
    a kernel may move fewer: a strided convolution need not read its whole image, a recurrent layer may keep its
    weights, 1-byte operands may be made on the way.
    """
    if task.arithmetic == "conv" and "winograd" in task.classes[0]:
        return 0.0
    conv = task.convolution
    whole = task.arithmetic == "gemm" or (conv is not None and set(conv.strides) == {1})
    moved = math.fsum(work.moved_bytes for work, _ in task.works) if whole and task.units.width > 1 else 0.0
    return max(task.flops / chip.flop_per_ns, (moved - chip.l2_bytes) / chip.bytes_per_ns)


# How long a float32 convolution of 3x3 takes over its plain product.
# Sizes that were timed, and a middle of each: side of the image, channels, filters, images.
_SIZES: Final = ((5.0, 252.0), (3.0, 2048.0), (3.0, 2048.0), (1.0, 64.0))
_MIDDLE: Final = (16.0, 256.0, 256.0, 32.0)


class _Fit(NamedTuple):
    """Time over that of the plain product, as a power of each size over its middle."""

    level: float  # at the middle of all sizes
    exponents: tuple[float, float, float, float]  # of side, channels, filters, images
    ends: tuple[float, float]  # 10th and 90th percentile of measured over predicted time


# Winograd's method cuts the image into tiles and has transforms of its own to launch: it gains on large images and many
# of them, and loses on small ones. Printed by `bench/fit.py winograd`: NeuSight's timings of PyTorch 2.1, cuDNN 8.9
# without autotuning, forward.
_FITS: Final[dict[str, _Fit]] = {
    "a100-pcie-80": _Fit(1.042, (-0.820, -0.376, -0.305, -0.474), (0.67, 1.63)),
    "v100-pcie": _Fit(0.892, (-0.782, -0.361, -0.243, -0.412), (0.70, 1.54)),
    "t4": _Fit(0.592, (-0.603, -0.323, -0.188, -0.338), (0.71, 1.51)),
    "p100": _Fit(0.733, (-0.861, -0.452, -0.280, -0.451), (0.64, 1.54)),
}
# whose timings stand in for a GPU
_TIMED: Final = (((8, 0), "a100-pcie-80"), ((7, 5), "t4"), ((7, 0), "v100-pcie"), ((0, 0), "p100"))


def logs_of(conv: Convolution) -> tuple[float, float, float, float] | None:
    """Return the logarithms of a convolution's sizes over their middles, within what was timed; None if unknown."""
    if conv.batch is None or conv.channels is None or conv.filters is None or None in conv.out:
        return None
    side = math.prod(out or 1 for out in conv.out) ** (1 / len(conv.out))
    sizes = zip((side, conv.channels, conv.filters, conv.batch), _SIZES, _MIDDLE, strict=True)
    first, second, third, fourth = (math.log(min(max(size, low), high) / mid) for size, (low, high), mid in sizes)
    return first, second, third, fourth


def _factors_of(conv: Convolution, gpu: Gpu) -> TimeFactors | None:
    """Return measured over plain time of a forward pass: 10th percentile, likely, 90th; None if it was not timed.

    Only two-dimensional convolutions of 3x3, unit stride and no dilation were.
    """
    logs = logs_of(conv)
    if logs is None or conv.kernel != (3, 3) or {*conv.strides, *conv.dilations} != {1} or conv.groups != 1:
        return None
    owner = since(gpu, _TIMED)
    level, exponents, (low, high) = _FITS[owner]
    likely = level * math.exp(math.fsum(e * log for e, log in zip(exponents, logs, strict=True)))
    return widened((low * likely, likely, high * likely), wider(gpu, owner))
