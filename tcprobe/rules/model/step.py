"""What one step of a model costs, and what a change of sizes saves."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from tcprobe.cost.predict import Cost, Target, op_cost, saving
from tcprobe.gemm.resize import resized
from tcprobe.rules.model.heads import NAMES, family, with_heads
from tcprobe.rules.model.links import Linked, LinkedChange, Links
from tcprobe.rules.model.recurrent import units_of, with_units
from tcprobe.rules.model.sizes import Sizes
from tcprobe.schema.finding import Range
from tcprobe.schema.model import Model, Product
from tcprobe.schema.op import OpRecord

__all__ = ["Linked", "LinkedChange", "Step"]


class Step:
    """Predicted costs of one step of a model on a GPU.

    Attributes:
        model, target, dtype: what is predicted; `dtype` replaces the model's own, None keeps it.
        sizes: the dimensions of its layers.
    """

    def __init__(self, model: Model, target: Target, dtype: str | None = None) -> None:
        self.model = model
        self.target = target
        self.dtype = dtype
        self.sizes = Sizes(model)
        self._gains: dict[tuple[int, tuple[LinkedChange, ...], tuple[LinkedChange, ...]], Range | None] = {}

    @cached_property
    def costs(self) -> tuple[Cost | None, ...]:
        """Cost of one execution of each product, in their order; None where it cannot be predicted."""
        return tuple(op_cost(p.record, self.target, self.dtype, p.compiled) for p in self.model.products)

    @cached_property
    def ns(self) -> Range | None:
        """Time of one step's products, in ns; None where none of them could be predicted."""
        times = [
            Range(cost.low_ns, cost.ns, cost.high_ns).scaled(product.calls)
            for cost, product in zip(self.costs, self.model.products, strict=True)
            if cost is not None
        ]
        return total(times)

    def dtype_of(self, index: int) -> str | None:
        """Return the dtype in which a product computes; None where unknown."""
        return self.dtype or self.model.products[index].record.dtype

    def share_pct(self, saved: Range) -> Range | None:
        """Return a saving over the step's time, in percent up to 100; None where the step's time is unknown.

        Low over low, likely over likely and high over high, since the model's errors go together; below 0 where the
        change may cost.
        """
        if self.ns is None or self.ns.low <= 0:
            return None
        ends = (saved.low / self.ns.low, saved.mid / self.ns.mid, saved.high / self.ns.high)
        low, high = min(ends), max(ends)
        return Range(*(min(100.0, 100.0 * share) for share in (low, ends[1], high)))

    def products_of(self, layer: str) -> list[int]:
        """Return the indexes of a layer's products; nothing where it multiplies nothing."""
        return list(self.sizes.by_layer.get(layer, ()))

    @cached_property
    def links(self) -> Links:
        """Which sizes must change together."""
        return Links(self.sizes)

    def linked(self, layer: str, dimension: str, size: int, suggested: int) -> list[LinkedChange]:
        """Return a change and every change that must come with it, the asked one first.

        Its new size is larger than `suggested` where a reshape asks for a multiple (3087 = 49 x 63: 3136). The
        change alone where what follows cannot be told; `link` says why.
        """
        return list(self.link(layer, dimension, size, suggested).changes)

    def link(self, layer: str, dimension: str, size: int, suggested: int) -> Linked:
        """Return the same as `linked`, with the reason where the change stands alone."""
        return self.links.follow(LinkedChange(layer, dimension, size, suggested))

    def saving(self, changes: Iterable[LinkedChange]) -> Range | None:
        """Return what changes together save a step, in ns; negative where they cost.

        Every product is predicted once, with all its changes made. None where no product that they touch could be
        predicted.
        """
        made = self.links.settled(tuple(changes))
        touched = dict.fromkeys(index for change in made for index in self.touched(change))
        found = [self.gain(index, made) for index in touched]
        return total([saved for saved in found if saved is not None])

    def touched(self, change: LinkedChange) -> list[int]:
        """Return the indexes of the products that a change may touch."""
        return family(self.sizes, change.layer) if change.dimension in NAMES else self.products_of(change.layer)

    def gain(self, index: int, changes: tuple[LinkedChange, ...], made: tuple[LinkedChange, ...] = ()) -> Range | None:
        """Return what changes save a step at one product, in ns, where others are made already.

        None where the product cannot be predicted or none of the changes touches it.
        """
        key = (index, changes, made)
        if key not in self._gains:
            self._gains[key] = self._gain(*key)
        return self._gains[key]

    def _gain(self, index: int, changes: tuple[LinkedChange, ...], made: tuple[LinkedChange, ...]) -> Range | None:
        product = self.model.products[index]
        before = self.changed(index, made)
        after = self.changed(index, changes, before)
        if after == before:
            return None
        saved = saving(before, after, self.target, self.dtype, product.compiled)
        return None if saved is None else saved.scaled(product.calls)

    def changed(self, index: int, changes: Iterable[LinkedChange], record: OpRecord | None = None) -> OpRecord:
        """Return the record of a product, or `record` in its place, after those of the changes that touch it."""
        product = self.model.products[index]
        record = product.record if record is None else record
        for change in changes:
            if index in self.touched(change):
                record = self._with(product, record, change)
        return record

    def _with(self, product: Product, record: OpRecord, change: LinkedChange) -> OpRecord:
        """Return the record after one change; as it is where it has no such size or its form is not understood."""
        layer = self.sizes.layers.get(change.layer)
        transposed = change.layer in self.sizes.transposed
        try:
            if layer is not None and change.dimension in NAMES:
                return with_heads(record, change, layer)
            if layer is not None and change.dimension == "units" and change.old == units_of(layer):
                return with_units(record, layer, change.old, change.new)
            name = self.sizes.spelled(product, change.dimension, change.old)
            return record if name is None else resized(record, name, change.old, change.new, transposed)
        except ValueError:  # what `resized` does not know how to change
            return record


def total(parts: list[Range]) -> Range | None:
    """Return the sum of ranges, bound by bound, since their errors are the model's and go together; None of none."""
    if not parts:
        return None
    return Range(sum(p.low for p in parts), sum(p.mid for p in parts), sum(p.high for p in parts))
