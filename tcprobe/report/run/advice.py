"""Word what to do first: one sentence per item of advice, in the order chosen by the analysis."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Final

from tcprobe.report import formatting as f
from tcprobe.report.ranges import range_text
from tcprobe.report.run import words
from tcprobe.schema.finding import Range
from tcprobe.schema.kinds import Advice, AdviceKind, ShareOf
from tcprobe.schema.profile import Profile

PASS_WORDS: Final = {"wgrad": "weight gradient", "dgrad": "input gradient", "forward": "forward pass"}
OF_OPS: Final[Mapping[ShareOf, str]] = {"kernel_time": "kernel time", "flops": "FLOPs of a step's GEMM-like ops"}
OF_SIZES: Final[Mapping[ShareOf, str]] = {"kernel_time": "kernel time", "flops": "GEMM FLOPs"}


@dataclasses.dataclass(frozen=True, slots=True)
class PrecisionWords:
    """How a framework's user chooses a precision, in words.

    Attributes:
        half: how to choose mixed precision in float16.
        mixed: how to choose mixed precision.
        tf32: how to choose TF32.
    """

    half: str = "mixed precision in float16"
    mixed: str = "mixed precision"
    tf32: str = "TF32 (unset NVIDIA_TF32_OVERRIDE)"


DEFAULT_WORDS: Final = PrecisionWords()
KERAS_WAYS: Final = "tf.keras.mixed_precision, or tcprobe profile --precision"
WORDS_BY_FRAMEWORK: Final = {
    "tensorflow": PrecisionWords(
        f"mixed_float16 ({KERAS_WAYS})",
        f"mixed_bfloat16 or mixed_float16 ({KERAS_WAYS})",
        "TF32 (unset NVIDIA_TF32_OVERRIDE, enable_tensor_float_32_execution(True))",
    ),
    "pytorch": PrecisionWords(
        f"{DEFAULT_WORDS.half} (torch.autocast with dtype=torch.float16)",
        f"{DEFAULT_WORDS.mixed} (torch.autocast)",
        "TF32 (unset NVIDIA_TF32_OVERRIDE, torch.set_float32_matmul_precision('high'))",
    ),
}


def advice_sentences(profile: Profile) -> list[str]:
    """Return what to do first, one sentence per item."""
    return [advice_sentence(item, profile.metadata.framework) for item in profile.advice]


def advice_sentence(item: Advice, framework: str | None) -> str:
    """Return one item as a sentence: what to do, in the framework's words, and why."""
    known = (framework or "").lower()
    ways = next((how for name, how in WORDS_BY_FRAMEWORK.items() if known.startswith(name)), DEFAULT_WORDS)
    return f"{ORDERS[item.kind](item, ways)}. Why: {WHYS[item.kind](item)}."


def as_json(item: Advice, framework: str | None) -> dict[str, Any]:
    """Return one item as its fields and its sentence."""
    fields = dataclasses.asdict(item)
    return {**{name.rstrip("_"): value for name, value in fields.items()}, "text": advice_sentence(item, framework)}


def _library(item: Advice, _: PrecisionWords) -> str:
    ways = ["8 or more channels", "NHWC layout"] if item.convolution else ["larger sizes or a larger batch"]
    ways += [] if item.compiled else ["XLA"]
    listed = ", ".join(ways[:-1]) + ("," * (len(ways) > 2)) + " or " * (len(ways) > 1) + ways[-1]
    return f"Try {listed}; then compare step times"


def _align(item: Advice, _: PrecisionWords) -> str:
    return f"Make the sizes multiples of 8{' (see Badly sized)' if item.listed else ''}"


def _slice(item: Advice, _: PrecisionWords) -> str:
    kept = words.kept(item.sizes[0].size)
    return f"Give {f.any_text(item.layer)} 8 filters, keep {kept} (slice) and measure{_line(item)}"


def _change(item: Advice, _: PrecisionWords) -> str:
    first, *rest = item.sizes
    changes = [f"from {first.size} to {first.next_size}"]
    changes += [f"{f.any_text(r.dimension)} from {r.size} to {r.next_size}" for r in rest]
    return f"Change {f.any_text(first.dimension)} of {f.any_text(item.layer)} {' and '.join(changes)}{_line(item)}"


ORDERS: Final[Mapping[AdviceKind, Callable[[Advice, PrecisionWords], str]]] = {
    "use_float32": lambda *_: "Compute in float32 or less",
    "use_float16": lambda *_: "Use mixed_float16: this GPU's Tensor Cores take float16",
    "mixed_precision": lambda _, ways: f"Train in {ways.half}",
    "allow_tf32": lambda _, ways: f"Allow {ways.tf32} first; then try {ways.mixed}",
    "check_tf32": lambda _, ways: f"Make sure that the run allows {ways.tf32}",
    "use_gpu": lambda *_: "Run on a GPU with Tensor Cores (Volta or later, but no GTX 16xx)",
    "align_sizes": _align,
    "library": _library,
    "change_size": _change,
    "slice_filters": _slice,
}


def _blocked(item: Advice) -> str:
    """Return what keeps ops off the Tensor Cores, what that costs, and where it costs most."""
    reason = f.visible(words.blocker(item.blocker)) if item.blocker else f.NA
    place = words.where(item.layer, item.op, item.pass_)
    return f"{reason}; {_costs(item, OF_OPS)}; above all {place}{_line(item)}"


def _sliced(item: Advice) -> str:
    channels = words.output_channels(item.sizes[0].size)
    if item.blocker is not None:
        return f"{channels}: {_ran(item)}; {_costs(item, OF_OPS)}{_gain(item)}"
    may = f": {words.MAY_LEAVE}" if item.effect and item.effect.sixteen_bit else ""
    return f"{channels}{may}{_gain(item)}"


def _sized(item: Advice) -> str:
    said = item.saving_ns is not None and item.saving_ns > 0
    effect = f"; {f.visible(words.size_advice(item.effect, predicted=said))}" if item.effect else ""
    return f"{_costs(item, OF_SIZES)}{_gain(item)}{effect}"


WHYS: Final[Mapping[AdviceKind, Callable[[Advice], str]]] = {
    "use_float32": _blocked,
    "use_float16": _blocked,
    "mixed_precision": _blocked,
    "allow_tf32": _blocked,
    "check_tf32": _blocked,
    "use_gpu": _blocked,
    "align_sizes": _blocked,
    "library": _blocked,
    "change_size": _sized,
    "slice_filters": _sliced,
}


def _costs(item: Advice, units: Mapping[ShareOf, str]) -> str:
    """Return a cost in words: kernel time per step, if known, and its share."""
    share = f"{f.percent(item.share_pct)} of the {units[item.share_of]}"
    if item.kernel_ns is None:
        return share
    step_time = f" of {f.duration(item.step_ns)}" if item.step_ns else ""
    return f"{f.duration(item.kernel_ns)} of kernel time in a step{step_time}, {share}"


def _ran(item: Advice) -> str:
    kernel = item.blocker and item.blocker.kernel
    named = f", {f.visible(kernel)}" if kernel else ""
    return f"cuDNN runs its {PASS_WORDS.get(item.pass_ or '', 'convolution')} on a CUDA-core kernel{named}"


def _gain(item: Advice) -> str:
    """Return half a sentence on what changing a layer's sizes saves; empty if unknown or unlikely."""
    low, likely, high = item.saving_low_ns, item.saving_ns, item.saving_high_ns
    if low is None or likely is None or high is None or likely <= 0:
        return ""
    of = "kernel time" if item.saving_of == "kernel_time" else "step's products"
    by = " (calibrated)" if item.calibrated else ""
    saves = f"save {range_text(Range(low, likely, high))} a step in this layer"
    return f"; predicted{by} to {saves}, likely {f.percent(item.saving_pct)} of the {of}"


def _line(item: Advice) -> str:
    return f" ({f.any_text(item.source)})" if item.source else ""
