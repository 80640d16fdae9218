"""What to do about a size that is not aligned: what it costs, as predicted, and when to leave it alone.

Figures are those of `audit-shapes`: the rates of `tcprobe.cost.predict` where all sizes of an op are known, else those
of large products (`tcprobe.cost.alignment`, which names the measurements that they rest on).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tcprobe.analysis.context import Context
from tcprobe.cost.alignment import penalty_of
from tcprobe.cost.constants import RateFamily
from tcprobe.cost.predict import Cost
from tcprobe.cost.xla import XLA_PADS_FROM
from tcprobe.hardware import Gpu, find_gpu
from tcprobe.rules.sizes.words import HARDLY
from tcprobe.schema.kinds import SIXTEEN_BIT, RateBasis, SizeAdvice, SizeAdviceKind
from tcprobe.schema.op import Contiguous

IMAGE_CHANNELS: Final = 4  # DeepBench on V100 and T4: float16 with C=1 padded to 8 ran 5-8 times slower, C=3 no faster
TINY_HEAD: Final = 16  # a product with so few columns reads its operands once and is bound by memory


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

    @property
    def worth(self) -> SizeAdviceKind:
        """What to do about it, where it costs something."""
        if self.groups > 1:
            return "fewer_groups"
        return "change_before" if self.dimension in ("inputs", "channels", "channels per group") else "change"


def left_alone(size: Size, context: Context) -> SizeAdvice | None:
    """Return why to leave a size as it is, whatever its ops cost; None where it may be worth changing."""
    if size.dimension.startswith("channels") and size.size <= IMAGE_CHANNELS:
        return SizeAdvice("image")
    if size.dimension == "units" and size.size <= TINY_HEAD:
        return SizeAdvice("small_head")
    if size.dimension in ("features", "inputs") and size.size <= TINY_HEAD:
        return SizeAdvice("small_dimension")
    if (idle := _idle(size.dtype, context)) is not None:
        return idle
    if _family(size.dtype, context) == "tf32" and size.size % 4 == 0:
        return SizeAdvice("tf32_aligned")
    return None


def judged(
    size: Size, context: Context, costs: Sequence[Cost] = (), compiled: bool = False, measured: bool = False
) -> SizeAdvice:
    """Return what to do about a size that `left_alone` does not speak of.

    Args:
        size: what to speak of.
        context: the GPU that ran or is judged against.
        costs: of all ops that it touches; empty where one of them cannot be predicted.
        compiled: XLA compiled the step.
        measured: kernels of these ops were timed, so that no prediction makes their cost nothing.
    """
    if size.few_filters:
        return SizeAdvice("slice")
    if costs and context.judged:
        return _predicted(size, context.judged, costs, compiled, measured)
    return _published(size, context)


def _idle(dtype: str | None, context: Context) -> SizeAdvice | None:
    """Return why no size matters to this dtype on this GPU; None where sizes matter."""
    if not context.nvidia or context.tensor_cores == "no":
        return SizeAdvice("no_tensor_cores", gpu=context.name)
    if dtype in ("float64", "double"):
        return SizeAdvice("float64")
    return SizeAdvice("float32") if _family(dtype, context) is None else None


def _family(dtype: str | None, context: Context) -> str | None:
    if dtype in SIXTEEN_BIT:
        return "tc16"
    if dtype in ("float32", "float"):
        capable = context.compute_capability is None or context.compute_capability >= (8, 0)
        return "tf32" if capable and context.tf32_allowed is not False else None
    return "other"


def _predicted(size: Size, gpu: Gpu, costs: Sequence[Cost], compiled: bool, measured: bool) -> SizeAdvice:
    """Return how far below an aligned product's rate its ops run."""
    if any(cost.uses_tc == "no" for cost in costs):
        return SizeAdvice("off_tensor_cores", gpu=gpu.name)
    slow = [cost.rate_pct for cost in costs if cost.rate_pct is not None]
    if all(rate.mid >= HARDLY for rate in slow):
        longest = max(costs, key=lambda cost: cost.ns)
        return SizeAdvice("measured_free" if measured else "free", limit=longest.limit)
    low, high = min(rate.low for rate in slow), max(rate.high for rate in slow)
    known = not size.convolution or any(cost.basis == "calibrated" for cost in costs)
    return SizeAdvice(
        size.worth,
        gpu=gpu.name,
        rate_low_pct=round(low),
        rate_high_pct=round(high),
        rate_basis="predicted" if known else "estimated",
        xla_pads=compiled and _padded(size, gpu),
    )


def _padded(size: Size, gpu: Gpu) -> bool:
    """Return whether XLA pads the products; of convolutions it pads some in float16, which is not told here."""
    least = XLA_PADS_FROM.get(size.dtype or "")
    return least is not None and gpu.compute_capability >= least and not size.convolution


def _published(size: Size, context: Context) -> SizeAdvice:
    """Return the rate of large products of such a size, where no size of the op's own tells."""
    family = _family(size.dtype, context) or "other"
    hopper = family == "tc16" and context.compute_capability is not None and context.compute_capability[0] == 9
    kinds: dict[str, RateFamily] = {"tc16": "tc16", "tf32": "tf32"}
    if family not in kinds:
        return SizeAdvice(size.worth)
    gpu = find_gpu("h100-sxm" if hopper else "a100-sxm-80")
    rate = round(100 * penalty_of([Contiguous("n", size.size)], kinds[family], gpu, None).compute.mid)
    basis: RateBasis = "published products" if size.convolution else "published"
    return SizeAdvice(size.worth, gpu=gpu.name, rate_low_pct=rate, rate_high_pct=rate, rate_basis=basis)
