"""Predict what 16 bits save over float32."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tcprobe.cost.predict import Cost, op_cost
from tcprobe.rules.base import Subject
from tcprobe.rules.model.step import added, rests_on
from tcprobe.schema.finding import Range
from tcprobe.schema.model import Product
from tcprobe.schema.provenance import Provenance


@dataclass(frozen=True, slots=True)
class Saved:
    """What 16 bits save per step over float32.

    Attributes:
        ns: the saving.
        basis: predicted, or calibrated on that GPU.
        constants: whose constants it rests on, those of the costliest product.
    """

    ns: Range
    basis: str
    constants: Provenance | None


def saved(subject: Subject, products: Iterable[Product], half: str) -> Saved | None:
    """Return what 16 bits save over float32; None if no product can be predicted.

    Both costs are from one model, so its error cancels out: the saved share scales the range of float32's time.
    Casts are not counted.
    """
    target, parts, costs = subject.step.target, [], []
    for product in products:
        before = op_cost(product.record, target, "float32", product.compiled)
        after = op_cost(product.record, target, half, product.compiled)
        if before is not None and after is not None and before.ns > 0:
            parts.append(_saving_of(before, after).scaled(product.calls))
            costs.append(before)
    if not parts:
        return None
    basis = "predicted" if target.constants is None else "calibrated"
    return Saved(added(parts), basis, next(iter(rests_on(costs)), None))


def _saving_of(before: Cost, after: Cost) -> Range:
    share = 1 - after.ns / before.ns
    bounds = sorted((before.low_ns * share, before.high_ns * share))
    return Range(bounds[0], before.ns * share, bounds[1])
