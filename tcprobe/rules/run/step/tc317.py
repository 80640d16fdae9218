"""TC317: says that 16 bits are predicted to pay although TF32 runs on Tensor Cores already."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tcprobe.rules.base import RuleDoc, Says, Template
from tcprobe.rules.run import words
from tcprobe.rules.run.base import RunSubject
from tcprobe.rules.run.savings import predicted
from tcprobe.schema.advice import Advice
from tcprobe.schema.changes.whatif import WhatIf
from tcprobe.schema.kinds import BlockerKind, ChangeKind
from tcprobe.schema.statement import say

SIXTEEN: Final[tuple[ChangeKind, ...]] = ("mixed_bfloat16", "mixed_float16")
PRECISIONS: Final[tuple[BlockerKind, ...]] = ("dtype", "tf32", "tf32_unknown", "gpu", "not_nvidia")
"""What keeps ops off the Tensor Cores so that TC303 to TC305 speak of precision and GPU, and there first."""

DOC: Final = RuleDoc(
    code="TC317",
    name="sixteen-bits-pay",
    summary="float32 products run on Tensor Cores as TF32, and 16 bits are predicted to be faster.",
    explanation=(
        "From Ampere on float32 products use Tensor Cores as TF32 unless that is switched off: such a run uses them, "
        "and mixed precision is no cure for anything. It may still pay: Tensor Cores multiply 16 bits twice as fast, "
        "and half the memory is moved.\n\n"
        "It is said only where a prediction for the products of this very run says so, and weighed by that. bfloat16 "
        "needs no loss scaling. Where a convolution of few filters may fall to a CUDA-core kernel in 16 bits, and that "
        "would cost more than all else gains, the item names it: both changes go together."
    ),
    severity="it counts the predicted saving; without a prediction nothing is said.",
    bad="model = keras.Sequential([keras.layers.Dense(4096), keras.layers.Dense(4096)])\n",
    good=(
        'keras.mixed_precision.set_global_policy("mixed_bfloat16")\n'
        'model = keras.Sequential([keras.layers.Dense(4096), keras.layers.Dense(4096, dtype="float32")])\n'
    ),
    sources=("docs/cost-model.md: how times of products are predicted, and how far predictions are off",),
)
FASTER: Final = "float32 products may run on Tensor Cores as TF32 already; 16 bits run there twice as fast"
ALONE: Final = (
    "; alone they are not predicted to pay: in 16 bits a library may leave the Tensor Cores for so few filters"
)


def _says(fields: Mapping[str, Any]) -> Template:
    order = f"Try {words.said(words.MIXED, fields['framework'])}"
    if not fields["sliced"]:
        return order, FASTER
    sizes = " and change sizes as under What if," if fields["sized"] else ""
    return (
        f"{order},{sizes} and give {{sliced!l}} 8 filters with it, of which the first are kept (slice)",
        FASTER + ALONE,
    )


SAYS: Final[Says] = {"halve_precision": _says}


def check(subject: RunSubject) -> Iterator[Advice]:
    """Yield one item where a what-if says that 16 bits pay, and no op is kept off the Tensor Cores by its precision."""
    if any(op.blocker.kind in PRECISIONS for op in subject.off):
        return
    found = [change for change in subject.what_ifs if change.change in SIXTEEN]
    best = max(found or _with_slices(subject), key=_worth, default=None)
    saving = None if best is None else predicted(subject, (best,))
    if best is None or saving is None or saving.ns.mid <= 0:
        return
    spent = best.spent_ns * subject.steps if subject.steps else None
    share = 100.0 * spent / subject.kernel_ns if spent and subject.kernel_ns > 0 else 0.0
    concern = subject.concern(min(share, 100.0), "kernel_time", spent)
    sized = {str(row["layer"]) for row in subject.sizes if row["layer"] is not None}
    drawn = frozenset({op for op, _ in best.op_names} | sized)  # all products are concerned, those of these layers too
    yield Advice(
        DOC.code,
        say(
            "halve_precision",
            framework=subject.framework,
            change=_precision(best),
            sliced=_sliced(best),
            sized=any(kind == "change_size" for kind, _ in best.holds),
        ),
        concern,
        saving=saving,
        draws_on=drawn,
    )


def _with_slices(subject: RunSubject) -> list[WhatIf]:
    """Return all changes together where they hold 16 bits and slices: these keep 16 bits from costing more."""
    return [one for one in subject.what_ifs if one.change == "together" and _precision(one) in SIXTEEN and _sliced(one)]


def _precision(change: WhatIf) -> ChangeKind:
    return next((kind for kind, layer in change.holds if layer is None), change.change)


def _sliced(change: WhatIf) -> tuple[str, ...]:
    """Return the layers whose few filters are computed as 8."""
    return tuple(str(layer) for kind, layer in change.holds if kind == "slice_filters")


def _worth(change: WhatIf) -> tuple[float, str]:
    return change.gain_ns.mid, change.change
