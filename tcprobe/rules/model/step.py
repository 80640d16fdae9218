"""What one step of a model costs, measured or predicted, and what a change of sizes saves."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from functools import cached_property
from typing import Final, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from tcprobe.cost.predict import Cost, Target, gains, op_cost, padding
from tcprobe.cost.spread import pooled
from tcprobe.gemm.ops import gemms_of
from tcprobe.gemm.resize import resized
from tcprobe.hardware import Capability
from tcprobe.rules.model.links import Linked, Links
from tcprobe.rules.model.sizes import (
    HEADS,
    LayerSizes,
    LinkedChange,
    grouped,
    products_within,
    units_of,
    with_heads,
    with_units,
)
from tcprobe.schema.finding import HOST_NS, Range, WhyKind
from tcprobe.schema.kinds import Evidence
from tcprobe.schema.model import Model
from tcprobe.schema.op import Gemm, OpRecord
from tcprobe.schema.provenance import Provenance, merged
from tcprobe.schema.statement import Statement, say

Ends: TypeAlias = tuple[float, float, float]
Changes: TypeAlias = tuple[LinkedChange, ...]
Gain: TypeAlias = Callable[[int, Changes, Changes], Range | None]
"""What changes save at one product, by its index, where others are made already; None where that is unknown."""
_ALIASES: Final = "aliases"  # an op's other names, which change no cost


class KnownGpu(Struct, frozen=True):
    """What is known of a GPU; a run may not say which one it had."""

    name: str | None  # of the GPU; None where unknown
    tensor_cores: bool  # False where it is known to have none
    compute_capability: Capability | None  # None where unknown
    tf32: bool  # whether float32 runs as TF32 where the GPU can
    # gives what predictions are for, asked only when something is predicted; None where nothing can be
    target: Callable[[], Target] | None = None

    @classmethod
    def of(cls, target: Target) -> KnownGpu:
        """Return the GPU of a target."""
        gpu = target.gpu
        return cls(gpu.name, gpu.tensor_cores, gpu.compute_capability, target.tf32, lambda: target)

    @property
    def runs_tf32(self) -> bool:
        """Whether float32 may run as TF32: it is allowed, and the GPU is not known to be too old."""
        return self.tf32 and (self.compute_capability is None or self.compute_capability >= (8, 0))


def idle(gpu: KnownGpu, dtype: str | None) -> Statement[WhyKind] | None:
    """Return why no size matters to a dtype on this GPU; None where sizes matter."""
    if not gpu.tensor_cores:
        return say("no_tensor_cores", gpu=gpu.name)
    if dtype in ("bfloat16", "float8") and gpu.target:
        model = gpu.target().gpu
        if model.peak_flop_per_s(dtype) is None:
            return say("no_tensor_cores_for", gpu=model.name, dtype=dtype)
    if dtype in ("float32", "float") and not gpu.runs_tf32:
        return say("plain_float32")
    if dtype in ("float64", "double"):
        return say("float64")
    return None


class ProductTime(Struct, frozen=True):
    """The measured time of one product."""

    ns: float  # of a step, on each GPU
    recorded_ns: float  # of all recorded steps, on all GPUs


class Step:
    """The costs of one step of a model on a GPU.

    Attributes:
        model: what the step multiplies.
        gpu: the GPU.
        dtype: takes the place of the model's own; None keeps it.
        measured: times of products by their index; empty where nothing ran.
        sizes: the dimensions of the model's layers.
    """

    def __init__(
        self,
        model: Model,
        target: Target | KnownGpu,
        dtype: str | None = None,
        measured: Mapping[int, ProductTime] | None = None,
    ) -> None:
        self.model = model
        self.gpu = KnownGpu.of(target) if isinstance(target, Target) else target
        self.dtype = dtype
        self.measured = measured or {}
        self.sizes = LayerSizes(model)
        self._alike = _Alike()

    @cached_property
    def target(self) -> Target:
        """What predictions are for.

        Raises:
            LookupError: it is not known which GPU the step ran on.
        """
        if self.gpu.target is None:
            raise LookupError("it is not known which GPU to predict for")
        return self.gpu.target()

    @cached_property
    def costs(self) -> tuple[Cost | None, ...]:
        """Predicted cost of one execution of each product, in their order; None where it cannot be predicted."""
        return tuple(self.cost(index) for index in range(len(self.model.products)))

    def cost(self, index: int) -> Cost | None:
        """Return the same of one product, and predict no other."""
        return self._cost(index, self._own[index])

    def known_costs(self, indexes: Iterable[int]) -> list[Cost]:
        """Return those of several products that can be predicted."""
        return [cost for index in indexes if (cost := self.cost(index)) is not None]

    @cached_property
    def _own(self) -> tuple[int, ...]:
        """Number of the record of each product."""
        return tuple(self._alike.number(product.record) for product in self.model.products)

    def _cost(self, index: int, number: int) -> Cost | None:
        """Return what a product costs with the shapes of another record; equal ones are predicted once."""
        if self.gpu.target is None:
            return None
        compiled = self.model.products[index].compiled
        key = number, compiled
        if key not in self._alike.costs:
            self._alike.costs[key] = op_cost(self._alike.records[number], self.target, self.dtype, compiled)
        return self._alike.costs[key]

    @cached_property
    def ns(self) -> Range | None:
        """Predicted time of one step's products with their launches, in ns; None where none could be predicted.

        The errors of unlike products are in part their own. At best the host runs ahead of the GPU: no launch shows.
        """
        whole = self._end_to_end
        if whole is None:
            return None
        own = zip(self._own, self.costs, self.model.products, strict=True)
        alike = grouped((number, Range(*c.ends_ns).scaled(product.calls)) for number, c, product in own if c)
        kernels = pooled(map(added, alike.values()))
        return Range(kernels.low, whole.mid, kernels.high + whole.mid - kernels.mid)

    @cached_property
    def _end_to_end(self) -> Range | None:
        """The same with all errors in common, as those of a saving are, which is told as a share of it."""
        costs = ((cost, product.calls) for cost, product in zip(self.costs, self.model.products, strict=True) if cost)
        return total_range([Range(c.low_ns, c.timed_ns, c.high_ns + c.launch_ns).scaled(calls) for c, calls in costs])

    def dtype_of(self, index: int) -> str | None:
        """Return the dtype in which a product computes; None where unknown."""
        return self.dtype or self.model.products[index].record.dtype

    def basis_of(self, indexes: Iterable[int]) -> str | None:
        """Return ``calibrated`` where all predicted costs of products are, else ``predicted``; None without any."""
        found = {cost.basis for cost in self.known_costs(indexes)}
        return max(found, default=None)  # the lesser one comes last

    def constants_of(self, indexes: Iterable[int]) -> Provenance | None:
        """Return whose constants the predicted costs of products rest on: those of the costliest; None without any."""
        return next(iter(rests_on(self.known_costs(indexes))), None)

    def evidence_of(self, indexes: Iterable[int]) -> Evidence | None:
        """Return what the predicted time rests on of the product that may take longest; None without any cost."""
        longest = max(self.known_costs(indexes), key=lambda cost: cost.high_ns, default=None)
        return None if longest is None else longest.evidence

    def padding_pct(self, indexes: Iterable[int]) -> Range | None:
        """Return what padding products with zeros at run time saves of their predicted time, copies counted, in %.

        Least over least, likely over likely, largest over largest: 100 at most. Where the least is 0 or below, padding
        may lose. None where one of them could not be padded, or XLA pads it.
        """
        saved, times = [], []
        for index in indexes:
            product, cost = self.model.products[index], self.cost(index)
            if cost is None or cost.rate_pct is None:
                continue  # it is aligned, or runs as fast
            gain = None if self.compiled(index) else padding(product.record, self.target, self.dtype)
            if gain is None:
                return None
            saved.append(gain.scaled(product.calls))
            times.append(Range(*cost.ends_ns).scaled(product.calls))
        gained, spent = added(saved), added(times)
        if spent.low <= 0:
            return None
        return Range(*(100 * (gain / ns) for gain, ns in zip(_ends(gained), _ends(spent), strict=True)))

    def compiled(self, index: int) -> bool:
        """Return whether XLA compiles a product, as its own record or else the target says."""
        own = self.model.products[index].compiled
        return (self.gpu.target is not None and self.target.xla) if own is None else own

    @cached_property
    def is_mostly_known(self) -> bool:
        """Whether half of the step or more has a predicted time, so that a share of it says much of the step."""
        return self.timed_share >= 0.5

    @cached_property
    def timed_share(self) -> float:
        """How much of the step has a predicted time, 0 to 1; 1 where it has no products.

        The smaller share of two: of the products, and of their multiplications, sizes that are not known as 1.
        """
        timed = [cost is not None for cost in self.costs]
        if all(timed):
            return 1.0
        products = self.model.products
        records = {id(product.record): product.record for product in products}  # one stands in many products
        least = {key: sum(map(_least, gemms_of(record))) for key, record in records.items()}
        works = [product.calls * least[id(product.record)] for product in products]
        of_timed = math.fsum(work for work, is_timed in zip(works, timed, strict=True) if is_timed)
        by_work = of_timed / math.fsum(works) if any(works) else 1.0
        return min(sum(timed) / len(timed), by_work)

    @cached_property
    def is_short(self) -> bool:
        """Whether the GPU is likely done with a step before the host has launched the next.

        What has no time is taken to last as long as its share says. Of unknown batch it is one of many samples; of
        fewer it takes less still.
        """
        return self.ns is not None and self.ns.mid < HOST_NS * self.timed_share

    def share_pct(self, saved: Range) -> Range | None:
        """Return a saving over the step's predicted time, in percent up to 100; None where that is unknown.

        Low over low, likely over likely and high over high, since the model's errors go together; below 0 where the
        change may cost.
        """
        whole = self._end_to_end
        if whole is None or whole.low <= 0:
            return None
        shares = (gain / ns for gain, ns in zip(_ends(saved), _ends(whole), strict=True))
        return _ordered(tuple(min(100.0, 100.0 * share) for share in shares))

    def products_of(self, layer: str) -> list[int]:
        """Return the indexes of a layer's products; nothing where it multiplies nothing."""
        return list(self.sizes.by_layer.get(layer, ()))

    @cached_property
    def links(self) -> Links:
        """Which sizes must change together."""
        return Links(self.sizes)

    def link(self, change: LinkedChange) -> Linked:
        """Return a change and every change that must come with it, the asked one first.

        Its new size is larger than asked where a reshape asks for a multiple (3087 = 49 x 63: 3136). The change
        stands alone, with the reason, where what follows cannot be told.
        """
        return self.links.follow(change)

    def saving(self, changes: Iterable[LinkedChange]) -> Range | None:
        """Return what changes together are predicted to save a step, in ns; negative where they cost.

        Every product is predicted once, with all its changes made. None where no product that they touch could be
        predicted.
        """
        after = self._numbers_after(self.links.settled(tuple(changes)))
        found = [self._gain(index, self._own[index], number) for index, number in after.items()]
        return total_range([saved for saved in found if saved is not None])

    def touched(self, change: LinkedChange) -> list[int]:
        """Return the indexes of the products that a change may touch."""
        return (
            products_within(self.sizes, change.layer) if change.dimension in HEADS else self.products_of(change.layer)
        )

    def gain(self, index: int, changes: Changes, made: Changes = ()) -> Range | None:
        """Return what changes are predicted to save a step at one product, in ns, where others are made already.

        None where the product cannot be predicted or none of the changes touches it.
        """
        before = self._changed(index, made, self._own[index])
        return self._gain(index, before, self._changed(index, changes, before))

    def _gain(self, index: int, before: int, after: int) -> Range | None:
        ends = self._saved(index, before, after)
        return None if ends is None else _ordered(ends).scaled(self.model.products[index].calls)

    def share(self, index: int, changes: Changes, made: Changes = ()) -> Range | None:
        """Return the same in shares of the predicted time as it is, at most 1; None where `gain` is or that is 0.

        Least over least, likely over likely, largest over largest, since the model's errors go together.
        """
        before = self._changed(index, made, self._own[index])
        ends, whole = self._saved(index, before, self._changed(index, changes, before)), self.cost(index)
        return None if ends is None or whole is None else _share(ends, whole)

    def _saved(self, index: int, before: int, after: int) -> Ends | None:
        """Return what one execution saves at the least, the likely and the largest time of both records."""
        if after == before:
            return None
        now, then = self._cost(index, before), self._cost(index, after)
        return None if now is None or then is None else gains(now, then)

    def computing(self, dtype: str | None, tf32: bool) -> Step:
        """Return the step as it is where its products compute in another dtype; None keeps each one's own.

        Args:
            dtype: of all products.
            tf32: whether float32 runs as TF32 where the GPU can.

        Raises:
            LookupError: it is not known which GPU the step ran on.
        """
        return Step(self.model, replace(self.target, tf32=tf32), dtype, self.measured)

    def timed_as(self, measured: Mapping[int, ProductTime]) -> Step:
        """Return the same step with other measured times."""
        found = copy(self)
        found.measured = measured
        return found

    def cost_after(self, index: int, changes: Changes) -> Cost | None:
        """Return what one execution of a product costs after those of the changes that touch it; None if unknown."""
        return self._cost(index, self._changed(index, changes, self._own[index]))

    def touches(self, index: int, changes: Changes) -> bool:
        """Return whether changes make a product another one."""
        return self._changed(index, changes, self._own[index]) != self._own[index]

    def records_after(self, changes: Changes) -> dict[int, OpRecord]:
        """Return the record after changes of each product that one of them may touch, by its index."""
        return {index: self._alike.records[number] for index, number in self._numbers_after(changes).items()}

    def _numbers_after(self, changes: Changes) -> dict[int, int]:
        found: dict[int, int] = {}
        for change in changes:
            for index in self.touched(change):
                found[index] = self._after(found.get(index, self._own[index]), change)
        return found

    def _changed(self, index: int, changes: Changes, number: int) -> int:
        product = self.model.products[index]
        name = product.layer or product.op
        for change in changes:
            if name == change.layer or (change.dimension in HEADS and name.startswith(f"{change.layer}/")):
                number = self._after(number, change)
        return number

    def _after(self, number: int, change: LinkedChange) -> int:
        """Return the number of a record after a change; its own where it has no such size or is not understood."""
        layer = self.sizes.layers.get(change.layer)
        own = layer is not None and (change.dimension in HEADS or units_of(layer) is not None)
        transposed = change.layer in self.sizes.transposed
        key = number, change.dimension, change.old, change.new, transposed, change.layer if own else None
        if key not in self._alike.after:
            made = self._with(self._alike.records[number], change, transposed)
            self._alike.after[key] = self._alike.number(made)
        return self._alike.after[key]

    def _with(self, record: OpRecord, change: LinkedChange, transposed: bool) -> OpRecord:
        layer = self.sizes.layers.get(change.layer)
        try:
            if layer is not None and change.dimension in HEADS:
                return with_heads(record, change, layer)
            if layer is not None and change.dimension == "units" and change.old == units_of(layer):
                return with_units(record, layer, change.old, change.new)
            name = self.sizes.spelled(record, change.layer, change.dimension, change.old)
            return record if name is None else resized(record, name, change.old, change.new, transposed)
        except ValueError:  # what `resized` does not know how to change
            return record


class _Alike(Struct):
    """Records by number, equal ones once, with what was found of each."""

    records: list[OpRecord] = field(default_factory=list)
    costs: dict[tuple[int, bool | None], Cost | None] = field(default_factory=dict)
    after: dict[tuple[int, str, int, int, bool, str | None], int] = field(default_factory=dict)
    _numbers: dict[tuple[object, ...], int] = field(default_factory=dict)

    def number(self, record: OpRecord) -> int:
        """Return the number of a record; names that change no cost tell none apart."""
        attributes = repr({name: value for name, value in record.attributes.items() if name != _ALIASES})
        shapes = record.input_shapes, record.output_shape
        key = (record.op_type, *shapes, attributes, record.dtype, record.pass_)
        if key not in self._numbers:
            self._numbers[key] = len(self.records)
            self.records.append(record)
        return self._numbers[key]


def share_saved(before: Cost, after: Cost) -> Range | None:
    """Return what one cost in place of another saves, in shares of the first, at most 1; below 0 where it costs more.

    Least over least, likely over likely, largest over largest, since the model's errors go together; those of Tensor
    Cores and of CUDA cores, which run other algorithms, add up as independent ones. None where the least time is 0.
    """
    return _share(gains(before, after, (before.uses_tc == "no") != (after.uses_tc == "no")), before)


def _least(gemm: Gemm) -> int:
    """Return the multiplications of a product, sizes that are not known as 1."""
    return math.prod(size or 1 for size in (gemm.m, gemm.n, gemm.k, gemm.batch))


def _share(saved: Ends, whole: Cost) -> Range | None:
    if whole.low_ns <= 0:
        return None
    return _ordered(tuple(gained / now for gained, now in zip(saved, whole.ends_ns, strict=True)))


def rests_on(costs: Iterable[Cost]) -> tuple[Provenance, ...]:
    """Return whose constants costs rest on, those of the costliest first."""
    ordered = sorted(costs, key=lambda cost: -cost.ns)
    return merged(cost.constants for cost in ordered if cost.constants is not None)


def total_range(parts: list[Range]) -> Range | None:
    """Return the sum of ranges; None where there is none of them."""
    return added(parts) if parts else None


def added(parts: Iterable[Range]) -> Range:
    """Return the sum of ranges, bound by bound, since their errors are the model's and go together; 0 for none."""
    found = list(parts)
    return Range(sum(p.low for p in found), sum(p.mid for p in found), sum(p.high for p in found))


def _ends(range_: Range) -> Ends:
    return range_.low, range_.mid, range_.high


def _ordered(ends: Sequence[float]) -> Range:
    return Range(min(ends), ends[1], max(ends))
