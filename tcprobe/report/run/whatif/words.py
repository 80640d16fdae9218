"""Say what would change, what a prediction is, and whose constants it rests on."""

from __future__ import annotations

from collections import Counter
from typing import Final

from tcprobe.report.provenance import constants_of, gpu_of
from tcprobe.schema.changes.whatif import WhatIf
from tcprobe.schema.kinds import ChangeKind
from tcprobe.schema.provenance import merged

PRECISIONS: Final[dict[ChangeKind, str]] = {
    "mixed_float16": "mixed_float16",
    "mixed_bfloat16": "mixed_bfloat16",
    "allow_tf32": "allow TF32",
}
OTHERS: Final[dict[ChangeKind, tuple[str, str]]] = {
    "change_size": ("1 size", "{} sizes"),
    "slice_filters": ("1 slice of 8 filters", "{} slices of 8 filters"),
}


def said(one: WhatIf) -> str:
    """Return what would change: ``mixed_float16``, ``filters of conv 63 -> 64``, ``all together (...)``."""
    match one.change:
        case "change_size":
            return f"{one.dimension} of {one.layer} {one.size} -> {one.next_size}"
        case "slice_filters":
            return f"8 filters in {one.layer}, keep {one.size}"
        case "together":
            return f"all together ({_held(one)})"
        case _:
            return PRECISIONS[one.change]


def _held(one: WhatIf) -> str:
    counts = Counter(kind for kind, _ in one.holds)
    lowered = [PRECISIONS[kind] for kind in counts if kind in PRECISIONS]
    others = [(words, counts[kind]) for kind, words in OTHERS.items() if kind in counts]
    return ", ".join([*lowered, *(alone if count == 1 else many.format(count) for (alone, many), count in others)])


def legend(shown: tuple[WhatIf, ...]) -> tuple[str, ...]:
    """Say what the predictions are, and whose constants they rest on."""
    whose = merged(one.constants for one in shown if one.constants is not None)
    return (
        f"a prediction, not a measurement: the measured time of these ops x the ratio of their {_ratio(shown)}; other "
        "kernels, and the time that the GPU waits, as they are",
        *_marks(shown),
        *(f"predicted for {gpu_of(one.gpu)} with {constants_of(one)}" for one in whose),
    )


def _ratio(shown: tuple[WhatIf, ...]) -> str:
    bases = {one.basis for one in shown}
    if bases == {"measured x calibrated"}:
        return "times as predicted with this GPU's calibration"
    return "predicted times" if len(bases) == 1 else "predicted times, calibrated where this GPU was"


def _marks(shown: tuple[WhatIf, ...]) -> tuple[str, ...]:
    """Explain what stands in some rows only."""
    kinds = {one.change for one in shown}
    longer = "or longer, or less" if any(one.may_cost and one.throughput is not None for one in shown) else "or longer"
    told = {
        "a size saves its part of what all such changes save together; with another bad size of the same ops left, it "
        "saves less": "change_size" in kinds,
        f"{longer}: the range of the prediction holds a loss as well": any(
            one.may_cost and one.step_ns is not None for one in shown
        ),
        "not predicted: ops of unknown shapes, time or kernels that the change concerns; they count as unchanged": any(
            one.unpredicted for one in shown
        ),
    }
    return tuple(text for text, needed in told.items() if needed)
