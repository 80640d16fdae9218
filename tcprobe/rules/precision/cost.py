"""Predict what 16 bits save over float32."""

from __future__ import annotations

from collections.abc import Iterable

from tcprobe.cost.predict import op_cost
from tcprobe.rules.base import Subject
from tcprobe.schema.finding import Range
from tcprobe.schema.model import Product


def basis_of(subject: Subject) -> str:
    """Return what figures rest on: predicted, or calibrated on that GPU."""
    return "predicted" if subject.step.target.constants is None else "calibrated"


def saved(subject: Subject, products: Iterable[Product], half: str) -> Range | None:
    """Return what 16 bits save per step over float32, in ns; None if no product can be predicted.

    Both costs are from one model, so its error cancels out: the saved share scales the range of float32's time.
    Casts are not counted.
    """
    parts = [part for product in products if (part := _saving_of(subject, product, half)) is not None]
    if not parts:
        return None
    return Range(sum(p.low for p in parts), sum(p.mid for p in parts), sum(p.high for p in parts))


def _saving_of(subject: Subject, product: Product, half: str) -> Range | None:
    target = subject.step.target
    before = op_cost(product.record, target, "float32", product.compiled)
    after = op_cost(product.record, target, half, product.compiled)
    if before is None or after is None or before.ns <= 0:
        return None
    share = 1 - after.ns / before.ns
    bounds = sorted((before.low_ns * share, before.high_ns * share))
    return Range(bounds[0], before.ns * share, bounds[1]).scaled(product.calls)
