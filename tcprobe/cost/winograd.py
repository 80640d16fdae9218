"""How long a float32 convolution of 3x3 takes over its plain product: by the sizes of image, channels and batch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from tcprobe.cost.constants import TimeFactors
from tcprobe.cost.shipped import widened, wider
from tcprobe.gemm.conv import Convolution
from tcprobe.hardware import Gpu

# Sizes that were timed, and a middle of each: side of the image, channels, filters, images.
_SIZES: Final = ((5.0, 252.0), (3.0, 2048.0), (3.0, 2048.0), (1.0, 64.0))
_MIDDLE: Final = (16.0, 256.0, 256.0, 32.0)


@dataclass(frozen=True, slots=True)
class _Fit:
    """Time over that of the plain product, as a power of each size over its middle.

    Attributes:
        level: at the middle of all sizes.
        side, channels, filters, images: exponents.
        ends: 10th and 90th percentile of measured over predicted time.
    """

    level: float
    side: float
    channels: float
    filters: float
    images: float
    ends: tuple[float, float]


# Winograd's method cuts the image into tiles and has transforms of its own to launch: it gains on large images and many
# of them, and loses on small ones. Printed by `bench/fit.py winograd`: NeuSight's timings of PyTorch 2.1, cuDNN 8.9
# without autotuning, forward.
_FITS: Final = {
    "a100-pcie-80": _Fit(0.978, -0.791, -0.295, -0.245, -0.454, (0.67, 1.55)),
    "v100-pcie": _Fit(0.803, -0.788, -0.284, -0.169, -0.397, (0.70, 1.49)),
    "t4": _Fit(0.672, -0.582, -0.247, -0.108, -0.323, (0.70, 1.49)),
    "p100": _Fit(0.959, -0.829, -0.361, -0.189, -0.419, (0.65, 1.52)),
}
WHY: Final = "float32 convolutions as cuDNN 8.9 runs them without autotuning"


def logs_of(conv: Convolution) -> tuple[float, float, float, float] | None:
    """Return the logarithms of a convolution's sizes over their middles, within what was timed; None if unknown."""
    if conv.batch is None or conv.channels is None or conv.filters is None or None in conv.out:
        return None
    side = math.prod(out or 1 for out in conv.out) ** (1 / len(conv.out))
    sizes = zip((side, conv.channels, conv.filters, conv.batch), _SIZES, _MIDDLE, strict=True)
    first, second, third, fourth = (math.log(min(max(size, low), high) / mid) for size, (low, high), mid in sizes)
    return first, second, third, fourth


def factors_of(conv: Convolution, gpu: Gpu) -> TimeFactors | None:
    """Return measured over plain time of a forward pass: 10th percentile, likely, 90th; None if it was not timed.

    Only two-dimensional convolutions of 3x3, unit stride and no dilation were.
    """
    logs = logs_of(conv)
    if logs is None or conv.kernel != (3, 3) or {*conv.strides, *conv.dilations} != {1} or conv.groups != 1:
        return None
    owner = timed_on(gpu)
    fit = _FITS[owner]
    exponents = (fit.side, fit.channels, fit.filters, fit.images)
    likely = fit.level * math.exp(math.fsum(e * log for e, log in zip(exponents, logs, strict=True)))
    low, high = fit.ends
    factor = wider(gpu, owner)
    return widened((low * likely, likely, high * likely), factor, factor)


def timed_on(gpu: Gpu) -> str:
    """Return the id of the GPU whose timings stand in for a GPU: its own if it is among them."""
    capability = gpu.compute_capability
    if capability >= (8, 0):
        return "a100-pcie-80"
    if capability >= (7, 5):
        return "t4"
    return "v100-pcie" if capability >= (7, 0) else "p100"
