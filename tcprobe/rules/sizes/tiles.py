"""TC102, TC108, TC109: the batch, products too small to fill the GPU, and sizes just past a boundary of tiles."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from tcprobe.cost.predict import saving
from tcprobe.gemm.ops import family_of
from tcprobe.gemm.record import RULE_OF_EIGHT, next_size
from tcprobe.rules.base import Says, Subject
from tcprobe.rules.model.settled import (
    NOTICED_PCT,
    Smaller,
    beyond,
    fitting,
    is_choice,
    matters,
    net_gain,
    settled_sizes,
    share_pct_of,
    smaller_sizes,
    worth,
)
from tcprobe.rules.model.sizes import Dimension, grouped
from tcprobe.rules.model.step import Step, added
from tcprobe.rules.sizes.findings import about, place_of, subject_of
from tcprobe.rules.words import listed, with_article
from tcprobe.schema.finding import Finding, FindingKind, Range, WhyKind
from tcprobe.schema.model import Place
from tcprobe.schema.op import OpRecord
from tcprobe.schema.statement import Both, Statement, say

DOMINATED_PCT: Final = 50.0
"""Share of the step from which products that leave the GPU idle are worth mentioning; a judgement."""
# which inputs of an op have the batch first; -1 stands for the output (TensorFlow's order of operands)
_OUTPUT: Final = -1
_CONVOLUTIONS: Final = {"conv": (0, _OUTPUT), "conv_dgrad": (2, _OUTPUT), "conv_wgrad": (0, 2)}
SAYS: Final[Says] = {
    "batch_not_a_multiple": lambda batch, why: Both(f"batch={batch} is not a multiple of 8", why),
    "batch_never_innermost": (
        "it does not matter, as no pass has the batch innermost in memory (only cuBLAS before 11 asks for it)"
    ),
    "cublas10_batch": "cuBLAS 10 uses Tensor Cores only where it is a multiple of 8",
    "too_small": lambda small, products, gpu, multiprocessors, share_pct, layers, batch: Both(
        f"{small} of {products} products have fewer tiles than {with_article(gpu)} has multiprocessors "
        f"({multiprocessors})",
        f"{share_pct} % of the predicted step, most of it in {listed(map(repr, layers))}; a larger batch than {batch} "
        "would cost little time",
    ),
    "idle_whatever_sizes": "these products leave a part of the GPU idle whatever their sizes are",
    "past_a_tile": lambda subject, batch, gpu, better: Both(
        f"{subject or f'batch={batch}'} is just past a boundary of tiles on {with_article(gpu)}",
        f"{better} runs faster by more than its share of the work",
    ),
}


def tc102(given: Subject) -> Iterator[Finding]:
    """Yield one note for a model whose batch size is known and not a multiple of 8."""
    model = given.model
    if not model.batch_known or model.batch % RULE_OF_EIGHT == 0:
        return
    old = given.step.target.library == "cublas10"
    why: Statement[WhyKind] = say("cublas10_batch" if old else "batch_never_innermost")
    suggested = next_size(model.batch, RULE_OF_EIGHT)
    yield Finding(
        code="TC102",
        says=say("batch_not_a_multiple", batch=model.batch, why=why),
        place=batch_place(given),
        severity="note",
        dimension="batch",
        size=model.batch,
        suggested=suggested if old else None,
        why=why,
    )


def batch_place(given: Subject) -> Place | None:
    """Return where ``batch_size=`` is given this value; None if nowhere."""
    for source in given.sources.values():
        for value in (k.value for call in source.walk.calls for k in call.keywords if k.arg == "batch_size"):
            known = source.known(value)
            if known is not None and known.value == given.model.batch:
                return source.place(value)
    return None


def tc108(given: Subject) -> Iterator[Finding]:
    """Yield at most one note for the model."""
    step = given.step
    small = _small(step)
    if not given.model.batch_known or step.ns is None or not small or not step.is_mostly_known:
        return
    share = 100.0 * sum(small.values()) / step.ns.mid
    if share < DOMINATED_PCT:
        return
    products = step.model.products
    spent = grouped((products[index].layer or products[index].op, ns) for index, ns in small.items())
    costliest = sorted(spent, key=lambda name: -sum(spent[name]))[:3]
    first = Dimension(costliest[0], "", 0, tuple(step.products_of(costliest[0])))
    gpu = step.target.gpu
    yield Finding(
        code="TC108",
        says=say(
            "too_small",
            small=len(small),
            products=len(products),
            gpu=gpu.name,
            multiprocessors=gpu.sm,
            share_pct=round(share),
            layers=tuple(costliest),
            batch=given.model.batch,
        ),
        place=place_of(step, first),
        severity="note",
        dimension="batch",
        size=given.model.batch,
        why=say("idle_whatever_sizes"),
    )


def _small(step: Step) -> dict[int, float]:
    """Return the time per step, with launches, of each product of less than one wave of tiles, by its index."""
    costs = enumerate(zip(step.costs, step.model.products, strict=True))
    return {i: c.timed_ns * p.calls for i, (c, p) in costs if c is not None and c.waves is not None and c.waves < 1}


def tc109(given: Subject) -> Iterator[Finding]:
    """Yield the sizes, and the batch if known, for which a slightly smaller size is faster."""
    step = given.step
    if step.ns is None:
        return
    bad = {(b.dimension.layer, b.dimension.name) for b in settled_sizes(step)}
    for dimension in _candidates(step):
        if (dimension.layer, dimension.name) not in bad and (better := _best(step, dimension)):
            yield _past(step, dimension, better)
    if given.model.batch_known and (better := _best_batch(step)):
        dimension = Dimension("", "batch", given.model.batch, tuple(range(len(given.model.products))))
        yield replace(_past(step, dimension, better), place=batch_place(given))


def _candidates(step: Step) -> Iterator[Dimension]:
    """Yield the output sizes of layers that do not determine an output of the model."""
    for dimension in step.sizes.dimensions:
        if is_choice(step, dimension) and dimension.size % 8 == 0 and matters(step, dimension.products):
            yield dimension


def _best(step: Step, dimension: Dimension) -> Smaller | None:
    links = fitting(step, dimension, dimension.size)
    return worth(step, [Smaller(size, net_gain(step, linked.changes)) for size, linked in links.items()])


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
    return added(parts)


def _past(step: Step, dimension: Dimension, better: Smaller) -> Finding:
    batch = dimension.size if dimension.name == "batch" else None
    subject = None if batch else subject_of(step, dimension)
    says: Statement[FindingKind] = say(
        "past_a_tile", subject=subject, batch=batch, gpu=step.target.gpu.name, better=better.size
    )
    found = about(step, "TC109", says, dimension, better.size, better.net)
    return replace(found, dtype=step.dtype_of(dimension.products[0]) if dimension.products else None)


def with_batch(record: OpRecord, old: int, new: int) -> OpRecord | None:
    """Return the op for `new` samples in place of `old`; None where its shapes do not tell which sizes are samples.

    Rows may be samples times steps of a sequence, as where a Dense layer flattens: they are scaled alike.
    """
    family = family_of(record.op_type)
    if family == "matmul":
        where = _rows_of_matmul(record)
    elif family in _CONVOLUTIONS:
        where = _CONVOLUTIONS[family]
    else:
        return None
    inputs, output = list(record.input_shapes), record.output_shape
    for index in where:
        shape = output if index == _OUTPUT else record.shape(index)
        if not shape or shape[0] is None or shape[0] % old:
            return None
        scaled = (shape[0] // old * new, *shape[1:])
        if index == _OUTPUT:
            output = scaled
        else:
            inputs[index] = scaled
    return replace(record, input_shapes=tuple(inputs), output_shape=output)


def _rows_of_matmul(record: OpRecord) -> tuple[int, ...]:
    """Rank 2 on the right is weights in the forward pass and its gradient; rank 2 as a weight gradient is weights."""
    if record.pass_ == "wgrad":
        return (0, 1) if record.output_shape is not None and len(record.output_shape) == 2 else (0, 1, _OUTPUT)
    right = record.shape(1)
    return (0, _OUTPUT) if right is not None and len(right) == 2 else (0, 1, _OUTPUT)
