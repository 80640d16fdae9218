"""What to do about a size of a run: what the rules say of it, as the kinds of the table `bad_sizes`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tcprobe.cost.alignment import published_pct
from tcprobe.rules.model.bad import Bad, convolves
from tcprobe.rules.model.sizes import INPUTS
from tcprobe.rules.model.step import Step
from tcprobe.rules.sizes.tc103 import is_depthwise
from tcprobe.rules.sizes.words import BOUND, Effect, effect
from tcprobe.schema.kinds import SIXTEEN_BIT, Limit, RateBasis, SizeAdvice, SizeAdviceKind

_BEST_LEFT: Final[Mapping[str, SizeAdviceKind]] = {"channels": "image", "units": "small_head"}
_IDLE: Final[Mapping[str, SizeAdviceKind]] = {
    "no_tensor_cores": "no_tensor_cores",
    "no_tensor_cores_for": "off_tensor_cores",
    "plain_float32": "float32",
    "float64": "float64",
    "fits_tf32": "tf32_aligned",
}
_LIMITS: Final[Mapping[str, Limit]] = {why: limit for limit, why in BOUND.items()}


def advice_on(step: Step, bad: Bad, measured: bool) -> SizeAdvice:
    """Return what to do about a size.

    Args:
        step: the costs.
        bad: the size.
        measured: kernels of its products were timed, so that no prediction makes their cost nothing.
    """
    if bad.code == "TC104":
        return SizeAdvice(_BEST_LEFT.get(bad.dimension.name, "small_dimension"))
    does = effect(step, bad)
    gpu: Any = does.says.get("gpu")
    if does.says.kind in _IDLE:
        return SizeAdvice(_IDLE[does.says.kind], gpu=gpu)
    if bad.code == "TC103":
        return SizeAdvice("small_dimension") if is_depthwise(bad) else _rated(step, bad, does, measured)
    if bad.is_image:
        return SizeAdvice("slice" if bad.linked else "slice_in_vain")
    return _published(step, bad) if bad.saved is None else _rated(step, bad, does, measured)


def _rated(step: Step, bad: Bad, does: Effect, measured: bool) -> SizeAdvice:
    """Return how far below an aligned product's rate its products are predicted to run."""
    if does.free:
        return SizeAdvice("measured_free" if measured else "free", limit=_LIMITS[does.says.kind])
    told: dict[str, Any] = dict(does.says.fields)
    if does.says.kind == "off_tensor_cores":
        return SizeAdvice("off_tensor_cores", gpu=told["gpu"])
    if does.says.kind != "slower":
        return _published(step, bad)
    padded = step.padding_pct(bad.dimension.products)
    return SizeAdvice(
        _worth(bad),
        gpu=told["gpu"],
        rate_low_pct=told["low_pct"],
        rate_high_pct=told["high_pct"],
        rate_basis="estimated" if told["estimated"] else "predicted",
        xla_pads=told["padded"],
        padding_may_lose=None if padded is None else padded.low <= 0,
    )


def _worth(bad: Bad) -> SizeAdviceKind:
    if bad.code == "TC103":
        return "fewer_groups"
    return "change_before" if bad.dimension.name in INPUTS else "change"


def _published(step: Step, bad: Bad) -> SizeAdvice:
    """Return the rate of large products of such a size, where no size of the product's own tells."""
    half = bad.dtype in SIXTEEN_BIT
    if not half and bad.dtype not in ("float32", "float"):
        return SizeAdvice(_worth(bad))
    gpu, rate = published_pct(bad.dimension.size, "tc16" if half else "tf32", step.gpu.compute_capability)
    basis: RateBasis = "published products" if convolves(step, bad.dimension) else "published"
    return SizeAdvice(_worth(bad), gpu=gpu.name, rate_low_pct=rate, rate_high_pct=rate, rate_basis=basis)
