"""Which sizes of a model break the rule of 8, whose they are, which rule tells of each, and what each costs.

One finding per dimension, over all rules. A size that a layer takes from another layer of the model is that layer's.
The rules divide the rest, the first that fits:

- TC106: a head's size of an attention layer;
- TC103: channels or filters of one group of a grouped convolution;
- TC104: up to 4 channels of a convolution's input, up to 16 units, inputs of the data or other columns: nothing to
  be gained; and what is not the layer's to choose;
- TC105: 1,000 or more units of a last layer: a vocabulary;
- TC101: all others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from tcprobe.gemm.ops import is_convolution
from tcprobe.gemm.record import bytes_of, multiple_for, next_size
from tcprobe.rules.model.links import IMAGE_CHANNELS, Linked, fixed, is_image
from tcprobe.rules.model.sizes import (
    FEATURES,
    HEADS,
    INPUTS,
    Dimension,
    LinkedChange,
    attention_of,
    grouped,
    head_dimensions,
    head_widths,
    is_head_size,
)
from tcprobe.rules.model.step import Gain, Step, added
from tcprobe.schema.finding import Range, WhyKind
from tcprobe.schema.statement import Statement

TINY: Final = 16
"""So few columns read their operands once and are bound by memory."""
VOCABULARY: Final = 1000
_VOCABULARY_MULTIPLE: Final = 64  # EleutherAI, "The Case for Co-Designing Model Architectures with Hardware"
_LITTLE: Final = 0.01  # share that a vocabulary may grow by for it, and that an image must save of its products


class Bad(Struct, frozen=True):
    """One size that breaks the rule of 8."""

    dimension: Dimension  # what and how large
    code: str  # of the rule that tells of it
    dtype: str | None  # the narrowest of its products' dtypes; None where unknown
    multiple: int  # what it should be a multiple of
    # the change to the suggested size with all that comes with it; None where nothing is suggested
    linked: Linked | None = None
    fixed: Statement[WhyKind] | None = None  # what sets it, where it is not the layer's to choose
    # its part, in ns a step, of what all suggestions for the products that it touches save together; None where unknown
    # or nothing is suggested
    saved: Range | None = None
    # the likely part of the time recorded on all GPUs, where every product was measured; else None, and `saved` is
    # predicted
    recorded_ns: float | None = None

    @property
    def suggested(self) -> int | None:
        """The size that is suggested; None where it is best left alone."""
        return self.linked.changes[0].new if self.linked else None

    @property
    def is_image(self) -> bool:
        """Whether these filters are an image, of which more may be computed and the first kept."""
        return is_image(self.dimension.name, self.dimension.size)

    @property
    def is_depthwise(self) -> bool:
        """Whether a group has this one channel, so that memory bounds it whatever is changed."""
        return self.dimension.size == 1


def convolves(step: Step, dimension: Dimension) -> bool:
    """Return whether a dimension is a convolution's."""
    return any(is_convolution(step.model.products[index].record.op_type) for index in dimension.products)


@lru_cache(maxsize=4)
def bad_sizes(step: Step) -> tuple[Bad, ...]:
    """Return every size that breaks the rule of 8 and is the layer's own, in the order of the model."""
    found = with_parts(step, [_judged(step, dimension) for dimension in _own(step)])
    if any(_image_in_vain(step, bad) for bad in found):
        found = with_parts(step, [replace(b, linked=None) if _image_in_vain(step, b) else b for b in found])
    return tuple(found)


def _image_in_vain(step: Step, bad: Bad) -> bool:
    """Return whether computing more filters than an image has is predicted not to pay: then none are suggested.

    A measured kernel may be one that no prediction expects.
    """
    if not bad.is_image or bad.saved is None or bad.recorded_ns is not None:
        return False
    takes = math.fsum(cost.ns for cost in step.known_costs(bad.dimension.products))
    return bad.saved.mid <= _LITTLE * takes


def with_parts(step: Step, found: list[Bad]) -> list[Bad]:
    """Return sizes with what each saves of what all suggestions save together."""
    parts = shared_out(step, [bad.linked for bad in found if bad.linked])
    made = []
    for bad in found:
        # without one of its products the saving would be too small
        costed = all(step.cost(index) is not None for index in bad.dimension.products)
        part = parts.get(bad.linked) if bad.linked and costed else None
        if part is not None and part.ns.mid <= 0 and not bad.is_image:  # what costs as much as it gains is no advice
            part = Saved(Range(0.0, 0.0, 0.0), None if part.recorded_ns is None else 0.0)
        made.append(replace(bad, saved=part and part.ns, recorded_ns=part and part.recorded_ns))
    return made


def narrowest(step: Step, dimension: Dimension) -> str | None:
    """Return the dtype of fewest bytes among the products that a dimension touches; None where unknown."""
    found = {step.dtype_of(index) for index in dimension.products}
    return min(found, key=lambda d: (bytes_of(d) or 99, d or ""), default=None)


def breaks(step: Step, dimension: Dimension) -> bool:
    """Return whether a size is no multiple of 16 bytes' worth, at least 8."""
    return dimension.size % multiple_for(narrowest(step, dimension)) != 0


def _own(step: Step) -> Iterator[Dimension]:
    seen: set[str] = set()
    yield from (d for d in head_dimensions(step.sizes) if d.products and breaks(step, d))
    for dimension in step.sizes.dimensions:
        if _is_batch(step, dimension) or not breaks(step, dimension) or _in_attention(step, dimension):
            continue
        sources = _unaligned_sources(step, dimension)
        if not sources:
            yield dimension
        for source in sources:
            if not source.products and source.layer not in seen:
                seen.add(source.layer)
                yield _of_takers(step, source)


def _in_attention(step: Step, dimension: Dimension) -> bool:
    """Return whether a size of an attention layer of known heads is one's, or follows from what the layer takes."""
    attention = attention_of(step.sizes, dimension.layer)
    if attention is None or not head_widths(attention):
        return False
    return is_head_size(attention, dimension.size) or dimension.name not in INPUTS


def _is_batch(step: Step, dimension: Dimension) -> bool:
    """Return whether a dimension of an op of the user's own is the batch, or its forward op tells of it.

    Where samples are multiplied by samples (a contrastive loss), the batch is no feature that anyone chose.
    """
    own_op = dimension.layer not in step.sizes.layers
    if dimension.size == step.model.batch and (own_op or dimension.name == FEATURES):
        return True
    passes = {step.model.products[index].record.pass_ for index in dimension.products}
    return own_op and passes.isdisjoint(("forward", "other"))


def _unaligned_sources(step: Step, dimension: Dimension) -> list[Dimension]:
    """Return the outputs that a layer takes and that break the rule themselves: then they are to be changed.

    Features of a layer that sets no size itself, as Attention has them, are those of what it takes.
    """
    if dimension.name not in (*INPUTS, FEATURES) or (dimension.name == "channels" and dimension.size <= IMAGE_CHANNELS):
        return []
    feeds = step.sizes.feeds.get(dimension.layer, ())
    found = [output for name in feeds if (output := step.sizes.output(name)) is not None]
    if dimension.name == FEATURES:
        found = [output for output in found if output.size == dimension.size]
    return [output for output in found if output.size % multiple_for(narrowest(step, dimension))]


def _of_takers(step: Step, source: Dimension) -> Dimension:
    """Return the size of a layer without products with the products of the layers that take it."""
    takers = [step.sizes.input(name) for name in step.sizes.consumers.get(source.layer, ())]
    products = tuple(index for taker in takers if taker is not None for index in taker.products)
    return Dimension(source.layer, source.name, source.size, products)


def _judged(step: Step, dimension: Dimension) -> Bad:
    code, dtype = _code(step, dimension), narrowest(step, dimension)
    multiple = multiple_for(dtype)
    if code in ("TC103", "TC104"):
        return Bad(dimension, code, dtype, multiple)
    suggested = next_size(dimension.size, multiple)
    if code == "TC105":
        roomy = next_size(dimension.size, _VOCABULARY_MULTIPLE)
        suggested = roomy if roomy - dimension.size <= _LITTLE * dimension.size else suggested
    linked = step.link(dimension.resized(suggested))
    why = fixed(step.sizes, dimension, linked)
    if why is None or is_image(dimension.name, dimension.size) or (code == "TC105" and why.kind == "labels_set"):
        return Bad(dimension, code, dtype, multiple, linked)
    return Bad(dimension, "TC104", dtype, multiple, fixed=why)


def _code(step: Step, dimension: Dimension) -> str:
    if dimension.name in HEADS:
        return "TC106"
    convolution = convolves(step, dimension)
    if convolution and step.sizes.groups(dimension.layer) > 1:
        return "TC103"
    if convolution:
        return "TC104" if dimension.name == "channels" and dimension.size <= IMAGE_CHANNELS else "TC101"
    fed = dimension.name in INPUTS and dimension.layer in step.sizes.feeds
    if dimension.size <= TINY and not fed:
        return "TC104"
    return "TC105" if _is_vocabulary(step, dimension) else "TC101"


def _is_vocabulary(step: Step, dimension: Dimension) -> bool:
    if dimension.size < VOCABULARY or dimension.name not in ("units", "features"):
        return False
    layer = step.sizes.layers.get(dimension.layer)
    words = dimension.size in step.sizes.vocabularies
    if layer is None or words:
        return words
    tail = step.sizes.tail(layer.name)
    activations = {known.config.get("activation") for known in tail}
    if "softmax" in activations or any(known.kind == "Softmax" for known in tail):
        return True
    # scores of words, unless they are what the model takes once more
    return (
        any(known.is_last for known in tail)
        and activations <= {None, "linear"}
        and dimension.size not in step.sizes.given
    )


class Saved(Struct, frozen=True):
    """What one suggestion saves."""

    ns: Range  # of a step
    # the likely part of the time recorded on all GPUs, where every product was measured; else None, and `ns` is
    # predicted
    recorded_ns: float | None = None


def shared_out(step: Step, links: list[Linked]) -> dict[Linked, Saved]:
    """Share out what all changes together save among the suggestions that ask for them.

    Two bad sizes of one product hide one another: mending one alone saves little. Each gets the mean of what it saves
    alone and of what it saves as the last one, which for two is their Shapley value and sums up to the whole.
    """
    changes = step.links.settled(tuple(change for linked in links for change in linked.changes))
    owners = grouped((change.key, linked) for linked in dict.fromkeys(links) for change in linked.changes)
    touching = grouped((index, change) for change in changes for index in step.touched(change))
    shares = grouped(
        (owner, _Share(index, change, tuple(other for other in touching[index] if other != change), 1 / len(holders)))
        for change in changes
        for holders in (owners[change.key],)
        for index in step.touched(change)
        for owner in holders
    )
    return {linked: saved for linked, parts in shares.items() if (saved := _saved(step, parts)) is not None}


class _Share(Struct, frozen=True):
    """A change at one product, with the other changes there; `part` of it, as several suggestions may ask for it."""

    index: int
    change: LinkedChange
    beside: tuple[LinkedChange, ...]
    part: float

    def of(self, gain: Gain) -> Range | None:
        """Return the mean of a gain by the change alone and by it as the last one; None where it is unknown."""
        alone = gain(self.index, (self.change,), ())
        last = gain(self.index, (self.change,), self.beside) if self.beside else alone
        return None if alone is None or last is None else added((alone, last)).scaled(self.part / 2)


def _saved(step: Step, shares: Sequence[_Share]) -> Saved | None:
    """Return what a suggestion saves: as predicted, or in shares of measured times where it has all of these."""
    told = [(share, gain) for share in shares if (gain := share.of(step.gain)) is not None]
    if not told:
        return None
    if not all(share.index in step.measured for share, _ in told):
        # a product that may not execute may save nothing
        sure = [(gain, step.model.products[share.index].sure) for share, gain in told]
        return Saved(added(g if s else Range(min(0.0, g.low), g.mid, max(0.0, g.high)) for g, s in sure))
    times = [(step.measured[share.index], part) for share, _ in told if (part := share.of(step.share)) is not None]
    recorded = sum(part.mid * time.recorded_ns for time, part in times)
    return Saved(added(part.scaled(time.ns) for time, part in times), recorded)
