"""What to say of a size that is not aligned: what it costs, as predicted, and when to leave it alone.

Figures and words are those of `audit-shapes`: the rates of `tcprobe.cost.predict` where all sizes of an op are
known, else those of large products (`tcprobe.cost.alignment`, which names the measurements that they rest on).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tcprobe.analysis.context import Context
from tcprobe.cost.alignment import penalty_of
from tcprobe.cost.constants import RateFamily
from tcprobe.cost.predict import Cost
from tcprobe.cost.xla import XLA_PADS_FROM
from tcprobe.hardware import Gpu, find_gpu
from tcprobe.rules.sizes.words import ESTIMATED, HARDLY, gpu_name, listed, unhurt
from tcprobe.schema.op import Contiguous

IMAGE_CHANNELS: Final = 4  # DeepBench on V100 and T4: float16 with C=1 padded to 8 ran 5-8 times slower, C=3 no faster
TINY_HEAD: Final = 16  # a product with so few columns reads its operands once and is bound by memory
IN_VAIN: Final = "8 filters would cost as much as they gain"

FREE: Final = "next to nothing"
_NOTHING: Final = ("nothing", FREE)
_NO_EFFECT: Final = "no effect"
_GRAY: Final = "1 input channel is an image's, and padding it"
_16_BITS: Final = ("float16", "bfloat16", "half")


@dataclass(frozen=True, slots=True)
class Size:
    """One size that is no multiple of what its dtype asks for.

    Attributes:
        dimension: as in the contract of `bad_sizes`.
        size: as it is.
        convolution: the layer convolves.
        groups: of that convolution; 1 elsewhere.
        dtype: of the op's inputs.
        passes: that it touches, in the order of training.
    """

    dimension: str
    size: int
    convolution: bool
    dtype: str | None
    passes: tuple[str, ...] = ()
    groups: int = 1

    @property
    def few_filters(self) -> bool:
        """Whether a convolution's filters are an image, of which more may be computed and the first kept."""
        return self.dimension.startswith("filters") and self.size <= IMAGE_CHANNELS


def left_alone(size: Size, context: Context) -> str | None:
    """Return why to leave a size as it is, whatever its ops cost; None where it may be worth changing."""
    count = size.size
    if size.dimension.startswith("channels") and count <= IMAGE_CHANNELS:
        image = f"{count} input channels are an image's, and padding them" if count > 1 else _GRAY
        return f"nothing: {image} to 8 ran slower where it was measured (V100, T4)"
    if size.dimension == "units" and count <= TINY_HEAD:
        return "nothing: so small a head is bound by memory and launches, not by arithmetic"
    if size.dimension in ("features", "inputs") and count <= TINY_HEAD:
        return "nothing: a product with so small a dimension is bound by memory and launches, not by arithmetic"
    if (idle := _idle(size.dtype, context)) is not None:
        return idle
    if _family(size.dtype, context) == "tf32" and count % 4 == 0:
        return "nothing for TF32, which asks for multiples of 4; float16 asks for 8"
    return None


def explain(
    size: Size, context: Context, costs: Sequence[Cost] = (), compiled: bool = False, measured: bool = False
) -> str:
    """Return one sentence or two on a size that `left_alone` does not speak of.

    Args:
        size: what to speak of.
        context: the GPU that ran or is judged against.
        costs: of all ops that it touches; empty where one of them cannot be predicted.
        compiled: XLA compiled the step.
        measured: kernels of these ops were timed, so that no prediction makes their cost nothing.
    """
    if size.few_filters:
        kept = f"the first{f' {size.size}' if size.size > 1 else ''}"
        direct = "cuDNN may run the weight gradient on a CUDA-core kernel; " if size.dtype in _16_BITS else ""
        many = f"{size.size} output channel{'s' * (size.size > 1)}"
        return f"{many}: {direct}give the convolution 8 filters, keep {kept} (slice) and measure"
    said = _predicted(size, context.judged, costs, compiled, measured) if costs and context.judged else None
    said = said or _published(size, context)
    if FREE in said or without_gain(said):
        return said
    if size.groups > 1:
        return f"{said}; fewer groups of 8 channels or more would be aligned"
    if size.dimension in ("inputs", "channels", "channels per group"):
        return f"{said}; it follows from what feeds this layer: change it there"
    return said


def in_vain(size: Size) -> str:
    """Return what to say of an image's filters of which more would not pay."""
    return f"nothing: {size.size} output channel{'s' * (size.size > 1)}, and {IN_VAIN}"


def is_harmless(advice: str) -> bool:
    """Return whether the advice is to leave the size alone."""
    return advice.startswith(_NOTHING)


def without_gain(advice: str) -> bool:
    """Return whether another size would gain nothing as things are."""
    return advice.startswith((*_NOTHING, _NO_EFFECT))


def aligned_share(advice: str) -> int:
    """Return the percentage of the aligned rate that the advice names, 100 where it names none."""
    found = re.search(r"about (\d+) % of the aligned rate", advice)
    return int(found[1]) if found else 100


def _idle(dtype: str | None, context: Context) -> str | None:
    """Return why no size matters to this dtype on this GPU; None where sizes matter."""
    if not context.nvidia or context.tensor_cores == "no":
        return f"no effect: {context.name or 'this GPU'} has no Tensor Cores"
    if dtype in ("float64", "double"):
        return "no effect while this layer computes in float64"
    if _family(dtype, context) is None:
        return "no effect while this layer computes in float32 without TF32; it counts once precision is lowered"
    return None


def _family(dtype: str | None, context: Context) -> str | None:
    if dtype in _16_BITS:
        return "tc16"
    if dtype in ("float32", "float"):
        capable = context.compute_capability is None or context.compute_capability >= (8, 0)
        return "tf32" if capable and context.tf32_allowed is not False else None
    return "other"


def _predicted(size: Size, gpu: Gpu, costs: Sequence[Cost], compiled: bool, measured: bool) -> str:
    """Return how far below an aligned product's rate its ops run."""
    passes, on = listed(size.passes) or "its products", gpu_name(gpu)
    many = len(size.passes) != 1
    if any(cost.uses_tc == "no" for cost in costs):
        return f"no effect: {passes} {'do' if many else 'does'} not use Tensor Cores on {on}"
    slow = [cost.rate_pct for cost in costs if cost.rate_pct is not None]
    if all(rate.mid >= HARDLY for rate in slow):
        return f"{'predicted to cost ' if measured else ''}{FREE}: {unhurt(costs)}"
    low, high = min(rate.low for rate in slow), max(rate.high for rate in slow)
    padded = "XLA pads it, at the cost of copies: " if compiled and _padded(size, gpu) else ""
    calibrated = any(cost.basis == "calibrated" for cost in costs)
    apart = f" ({ESTIMATED})" if size.convolution and not calibrated else ""
    run = "run" if many else "runs"
    return f"predicted: {padded}{passes} {run} at {low:.0f}-{high:.0f} % of an aligned one on {on}{apart}"


def _padded(size: Size, gpu: Gpu) -> bool:
    """Return whether XLA pads the products; of convolutions it pads some in float16, which is not told here."""
    least = XLA_PADS_FROM.get(size.dtype or "")
    return least is not None and gpu.compute_capability >= least and not size.convolution


def _published(size: Size, context: Context) -> str:
    """Return the rate of large products of such a size, where no size of the op's own tells."""
    family = _family(size.dtype, context) or "other"
    hopper = family == "tc16" and context.compute_capability is not None and context.compute_capability[0] == 9
    kinds: dict[str, tuple[RateFamily, str]] = {"tc16": ("tc16", "16-bit"), "tf32": ("tf32", "TF32")}
    if family not in kinds:
        return "runs on Tensor Cores more slowly; how much is not measured for this dtype"
    key, kind = kinds[family]
    gpu, name = (find_gpu("h100-sxm"), "an H100") if hopper else (find_gpu("a100-sxm-80"), "an A100")
    share = penalty_of([Contiguous("n", size.size)], key, gpu, None).compute.mid
    rate = f"about {100 * share:.0f} % of the aligned rate ({kind}, large products on {name})"
    if size.convolution:
        return f"runs on Tensor Cores more slowly: not measured for convolutions; matrix products reach {rate}"
    return f"runs on Tensor Cores at {rate}"
