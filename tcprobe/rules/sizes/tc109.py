"""TC109: finds a size just past a boundary of a tile or of a wave of tiles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from tcprobe.cost.predict import saving
from tcprobe.rules.base import RuleDoc, Says, Subject
from tcprobe.rules.model.batch import with_batch
from tcprobe.rules.model.fewer import (
    NOTICED_PCT,
    Smaller,
    beyond,
    fits,
    is_choice,
    matters,
    net_gain,
    share_pct_of,
    smaller_sizes,
    worth,
)
from tcprobe.rules.model.settled import settled_sizes
from tcprobe.rules.model.sizes import Dimension
from tcprobe.rules.model.step import Step, total_range
from tcprobe.rules.sizes.tc102 import batch_place
from tcprobe.rules.sizes.words import passes_of, place_of
from tcprobe.rules.sizes.words import subject as named
from tcprobe.schema.finding import Finding, Range
from tcprobe.schema.statement import say

DOC = RuleDoc(
    code="TC109",
    name="just-past-a-tile",
    summary="A size lies just past a multiple of a tile, and a slightly smaller one runs notably faster.",
    explanation=(
        "Libraries cut a product into tiles of 64 to 256 rows and columns, and the GPU's multiprocessors take them "
        "wave by wave. One row more than a whole number of tiles makes a tile, or a wave, that is nearly empty. "
        "Measured as the time of one row more over that of a power of two: at 128 rows 1.29 on an A100, at 256 "
        "rows 1.35, at 4096 1.04; on an H100 1.05 at 256. The rule asks the cost model whether a size up to 3 % "
        "smaller saves 1 % of the step or more beyond what it saves by being smaller. It looks at the batch, and "
        "at sizes that keep the rule of 8; the others are TC101's."
    ),
    severity="From the saving beyond the share of the size: error from 5 % of the step, warning where it may be 1 %.",
    bad="model.fit(x, y, batch_size=257)",
    good="model.fit(x, y, batch_size=256)",
    sources=(
        "NVIDIA, Matrix Multiplication Background User's Guide: tile and wave quantization",
        "aiconfigurator measurements (A100, H100, B200, L40S): one row past a power of two",
    ),
)

SAYS: Final[Says] = {
    "past_a_tile": lambda fields: (
        f"{'{subject}' if fields['subject'] else 'batch={batch}'} is just past a boundary of tiles on {{gpu!a}}",
        "{better} runs faster by more than its share of the work",
    ),
}


def check(subject: Subject) -> Iterator[Finding]:
    """Yield the sizes, and the batch if known, for which a slightly smaller size is faster."""
    step = subject.step
    if step.ns is None:
        return
    bad = {(b.dimension.layer, b.dimension.name) for b in settled_sizes(step)}
    for dimension in _candidates(step):
        if (dimension.layer, dimension.name) not in bad and (better := _best(step, dimension)):
            yield _finding(step, dimension, better)
    if subject.model.batch_known and (better := _best_batch(step)):
        dimension = Dimension("", "batch", subject.model.batch, tuple(range(len(subject.model.products))))
        yield replace(_finding(step, dimension, better), place=batch_place(subject))


def _candidates(step: Step) -> Iterator[Dimension]:
    """Yield the output sizes of layers that do not determine an output of the model."""
    for dimension in step.sizes.dimensions:
        if is_choice(step, dimension) and dimension.size % 8 == 0 and matters(step, dimension.products):
            yield dimension


def _best(step: Step, dimension: Dimension) -> Smaller | None:
    found = []
    for size in smaller_sizes(dimension.size):
        linked = step.link(dimension.layer, dimension.name, dimension.size, size)
        if fits(linked, size):
            found.append(Smaller(size, net_gain(step, linked.changes)))
    return worth(step, found)


def _best_batch(step: Step) -> Smaller | None:
    return worth(step, [Smaller(size, _net_batch(step, size)) for size in smaller_sizes(step.model.batch)])


def _net_batch(step: Step, size: int) -> Range:
    old, parts = step.model.batch, []
    for index, product in enumerate(step.model.products):
        if share_pct_of(step, index) < NOTICED_PCT:
            continue
        after = with_batch(product.record, old, size)
        saved = saving(product.record, after, step.target, step.dtype, product.compiled) if after else None
        if saved is not None:
            parts.append(beyond(step, index, saved.scaled(product.calls), 1 - size / old))
    return total_range(parts) or Range(0.0, 0.0, 0.0)


def _finding(step: Step, dimension: Dimension, better: Smaller) -> Finding:
    layer = step.sizes.layers.get(dimension.layer)
    batch = dimension.name == "batch"
    about = None if batch else named(step, dimension)
    basis = next((cost.basis for i in dimension.products if (cost := step.costs[i]) is not None), None)
    return Finding(
        code=DOC.code,
        says=say(
            "past_a_tile",
            subject=about,
            batch=dimension.size if batch else None,
            gpu=step.target.gpu.name,
            better=better.size,
        ),
        place=place_of(step, dimension) if layer else None,
        layer=dimension.layer or None,
        layer_class=layer.class_name if layer else None,
        dimension=dimension.name,
        size=dimension.size,
        suggested=better.size,
        passes=passes_of(step, dimension.products),
        dtype=step.dtype_of(dimension.products[0]) if dimension.products else None,
        saving_ns=better.net,
        saving_pct=step.share_pct(better.net),
        basis=basis,
        constants=step.constants_of(dimension.products),
    )
