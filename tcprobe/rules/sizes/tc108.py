"""TC108: notes products too small to fill the GPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tcprobe.rules.base import RuleDoc, Says, Subject
from tcprobe.rules.model.sizes import Dimension
from tcprobe.rules.model.step import Step
from tcprobe.rules.sizes.words import place_of
from tcprobe.schema.finding import Finding
from tcprobe.schema.statement import say

DOMINATED_PCT: Final = 50.0
"""Share of the step from which products that leave the GPU idle are worth mentioning; a judgement."""
DOC = RuleDoc(
    code="TC108",
    name="too-small-for-the-gpu",
    summary="Most of the step goes into products too small to give every multiprocessor a tile.",
    explanation=(
        "A product is cut into tiles, one for each of the GPU's multiprocessors at a time (108 on an A100, 132 on "
        "an H100). One with fewer tiles than multiprocessors leaves some of them idle, and takes hardly longer "
        "when it grows. Where such products take most of the step, a larger batch, or several steps at once, costs "
        "little time; alignment matters little there. One note per model, only where the batch is known and at "
        "least half of the predicted step is of this kind."
    ),
    severity="Always a note.",
    level="note",
    bad="model.fit(x, y, batch_size=16)",
    good="model.fit(x, y, batch_size=512)",
    sources=(
        "NVIDIA, Matrix Multiplication Background User's Guide: wave quantization",
        "NVIDIA, Linear/Fully-Connected Layers User's Guide: batch and neuron counts",
    ),
)
SAYS: Final[Says] = {
    "too_small": (
        "{small} of {products} products have fewer tiles than {gpu!a} has multiprocessors ({multiprocessors})",
        "{share_pct} % of the predicted step, most of it in {layers!q}; a larger batch than {batch} would cost little "
        "time",
    ),
    "idle_whatever_sizes": "these products leave a part of the GPU idle whatever their sizes are",
}


def check(subject: Subject) -> Iterator[Finding]:
    """Yield at most one note for the model."""
    step = subject.step
    small = _small(step)
    if not subject.model.batch_known or step.ns is None or not small:
        return
    share = 100.0 * sum(small.values()) / step.ns.mid
    if share < DOMINATED_PCT:
        return
    products = step.model.products
    spent: dict[str, float] = {}
    for index, ns in small.items():
        name = products[index].layer or products[index].op
        spent[name] = spent.get(name, 0.0) + ns
    costliest = sorted(spent, key=lambda name: -spent[name])[:3]
    first = Dimension(costliest[0], "", 0, tuple(step.products_of(costliest[0])))
    gpu = step.target.gpu
    yield Finding(
        code=DOC.code,
        says=say(
            "too_small",
            small=len(small),
            products=len(products),
            gpu=gpu.name,
            multiprocessors=gpu.sm,
            share_pct=round(share),
            layers=tuple(costliest),
            batch=subject.model.batch,
        ),
        place=place_of(step, first),
        severity="note",
        dimension="batch",
        size=subject.model.batch,
        why=say("idle_whatever_sizes"),
    )


def _small(step: Step) -> dict[int, float]:
    """Return the time per step, with launches, of each product of less than one wave of tiles, by its index."""
    found = {}
    for index, (cost, product) in enumerate(zip(step.costs, step.model.products, strict=True)):
        if cost is not None and cost.waves is not None and cost.waves < 1:
            found[index] = cost.timed_ns * product.calls
    return found
