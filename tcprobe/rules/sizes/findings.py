"""The finding on a bad size: what the size does to its products, why its cost is unknown, and what goes with it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from tcprobe.cost.alignment import published_pct
from tcprobe.cost.constants import RateFamily
from tcprobe.cost.predict import Cost
from tcprobe.cost.works import XLA_PADS_FROM
from tcprobe.gemm.ops import family_of, gemms_of
from tcprobe.keras.catalogue import class_of, rank_of
from tcprobe.rules.base import Says
from tcprobe.rules.model.bad import Bad, convolves
from tcprobe.rules.model.sizes import INPUTS, OUTPUTS, Dimension
from tcprobe.rules.model.step import Step, idle
from tcprobe.rules.words import BOUND, ESTIMATED, UNHURT, listed, with_article
from tcprobe.schema.finding import EffectKind, Finding, FindingKind, InputSize, Range, RelatedKind, WhyKind
from tcprobe.schema.kinds import SIXTEEN_BIT
from tcprobe.schema.model import Layer, Place
from tcprobe.schema.op import PASSES, OpRecord, product
from tcprobe.schema.statement import About, Statement, say

TF32: Final = ("float32", "float", "tf32")  # dtypes that run as TF32 where the GPU can
HARDLY: Final = 97.0  # percent of an aligned product's rate; the rest to 100 is within the error of any measurement
Sizes: TypeAlias = tuple[str | int, ...]
_SPACE: Final[dict[int | None, tuple[InputSize, ...]]] = {
    1: ("length",),
    2: ("height", "width"),
    3: ("depth", "height", "width"),
}
_LETTERS: Final[dict[InputSize, str]] = {"depth": "D", "height": "H", "width": "W", "length": "L", "channels": "C"}


def _slower(passes: Sequence[str], low_pct: int, high_pct: int, gpu: str, padded: bool, estimated: bool) -> str:
    run = "run" if len(passes) > 1 else "runs"
    pads = "XLA pads it, at the cost of copies: " if padded else ""
    rate = f"{low_pct}-{high_pct} % of an aligned one on {with_article(gpu)}"
    return f"{pads}{listed(passes)} {run} at {rate}{f' ({ESTIMATED})' if estimated else ''}"


def _slower_by_unknown(why: str, measured: bool, rate_pct: int | None, gpu: str | None) -> str:
    if not measured:
        return f"it may run more slowly, {why}"
    if rate_pct is None or gpu is None:
        return f"it runs more slowly, {why}"
    rate = f"a large product of such a size runs at {rate_pct} % of an aligned one on {with_article(gpu)}"
    return f"it runs more slowly ({rate}), {why}"


def _unknown_sizes(takes: Sequence[str], own: Sequence[str], input: Sizes | None) -> str:  # noqa: A002 - a field
    sizes = [f"the {listed(takes)} of what it takes"] if takes else []
    sizes += [f"its {listed(own)}"] if own else []
    if not sizes:
        return "how much is unknown: not all sizes of its products are known"
    give = "" if input is None else f"; give the model's input: --input-shape {','.join(map(str, input)) or 'SIZES'}"
    return f"how much is unknown without {listed(sizes)}{give}"


def _off_cores(passes: Sequence[str], cublas10: bool, gpu: str) -> str:
    use = "does" if len(passes) == 1 else "do"
    return f"{listed(passes)} {use} not use Tensor Cores{' with cuBLAS 10' * cublas10} on {with_article(gpu)}"


def _resized(old: int | None, new: int | None) -> str:
    return "" if old is None else f" {old} -> {new}"


SAYS: Final[Says] = {
    "no_tensor_cores": lambda gpu: f"no effect: {with_article(gpu)} has no Tensor Cores",
    "no_tensor_cores_for": lambda gpu, dtype: f"no effect: {with_article(gpu)} has no Tensor Cores for {dtype}",
    "plain_float32": "no effect while it computes in float32 without TF32; it counts once precision is lowered",
    "float64": "no effect while it computes in float64",
    "fits_tf32": "costs nothing in TF32, which asks for multiples of 4; float16 asks for 8",
    **{kind: f"costs next to nothing: {why}" for kind, why in UNHURT.items()},
    "product_sizes_unknown": _unknown_sizes,
    "dtype_unknown": "how much is unknown without the dtype that it computes in; give --dtype",
    "dtype_without_rate": lambda gpu, dtype: (
        f"how much is unknown: how fast {with_article(gpu)} multiplies {dtype} is not known"
    ),
    "slower_by_unknown": _slower_by_unknown,
    "slower": _slower,
    "off_tensor_cores": _off_cores,
    "takes": lambda subject, dimension, old, new: f"{subject} takes: {dimension}{_resized(old, new)}",
    "puts_out_same": lambda subject, dimension, old, new: (
        f"{subject} must put out the same: {dimension}{_resized(old, new)}"
    ),
}


class Effect(Struct, frozen=True):
    """What a bad size does to the products that it affects."""

    says: Statement[EffectKind | WhyKind]  # the statement of the effect
    # why it costs nothing, or why the cost is unknown; None if the figures say it all
    why: Statement[WhyKind] | None = None
    free: bool = False  # whether it costs nothing


def passes_of(step: Step, indexes: Iterable[int]) -> tuple[str, ...]:
    """Return the passes of some products, in the order of training."""
    found = {step.model.products[index].record.pass_ for index in indexes}
    return tuple(p for p in PASSES if p in found)


def subject_of(step: Step, dimension: Dimension) -> About:
    """Return the subject of a finding about a dimension."""
    layer = step.sizes.layers.get(dimension.layer)
    ops = [step.model.products[index].record.op_type for index in dimension.products[:1]]
    return About(layer.class_name if layer else next(iter(ops), "op"), dimension.layer, dimension.name, dimension.size)


def place_of(step: Step, dimension: Dimension) -> Place | None:
    """Return where the user's code sets a dimension: the argument, else the layer, else the op."""
    layer = step.sizes.layers.get(dimension.layer)
    places = [layer.arguments.get(dimension.name), layer.place] if layer is not None else []
    places += [step.model.products[index].place for index in dimension.products]
    return next((place for place in places if place is not None), None)


def effect(step: Step, bad: Bad) -> Effect:
    """Return the predicted effect of a bad size, pass by pass."""
    if (why := idle(step.gpu, bad.dtype)) is not None:
        return Effect(why, why, free=True)
    if bad.dtype in TF32 and bad.dimension.size % 4 == 0:
        fits: Statement[WhyKind] = say("fits_tf32")
        return Effect(fits, fits, free=True)
    known = {i: cost for i in bad.dimension.products if (cost := step.cost(i)) is not None}
    rated = _rated(step, bad, known) if known else None
    if rated is not None and len(known) == len(bad.dimension.products):
        return rated
    unknown = why_unknown(step, bad.dimension.products)
    if rated is None or rated.free:  # the other products may cost what these do not
        return Effect(_by_unknown(step, bad, unknown), unknown)
    return replace(rated, why=unknown)


def _by_unknown(step: Step, bad: Bad, why: Statement[WhyKind]) -> Statement[EffectKind]:
    """Return that a size costs something, with the rate of large products of such a size where these were timed."""
    measured = is_timed(step, bad)
    if not measured or step.target.library == "cublas10":
        return say("slower_by_unknown", why=why, measured=measured, rate_pct=None, gpu=None)
    family: RateFamily = "tc16" if bad.dtype in SIXTEEN_BIT else "tf32"
    gpu, rate = published_pct(bad.dimension.size, family, step.gpu.compute_capability)
    return say("slower_by_unknown", why=why, measured=True, rate_pct=rate, gpu=gpu.name)


def is_timed(step: Step, bad: Bad) -> bool:
    """Return whether unaligned products of this kind were timed, whatever their sizes are.

    Not so for convolutions, recurrent layers and float8, nor where the dtype is unknown or XLA pads.
    """
    families = {family_of(step.model.products[index].record.op_type) for index in bad.dimension.products}
    if convolves(step, bad.dimension) or "rnn" in families or step.gpu.target is None or _padded(step, bad):
        return False
    return bad.dtype in (*SIXTEEN_BIT, *TF32)


def _rated(step: Step, bad: Bad, known: dict[int, Cost]) -> Effect:
    on = step.target.gpu.name
    off = [i for i, cost in known.items() if cost.uses_tc == "no"]
    if off:
        old = step.target.library == "cublas10"
        return Effect(say("off_tensor_cores", passes=passes_of(step, off), cublas10=old, gpu=on))
    slow = {i: cost.rate_pct for i, cost in known.items() if cost.rate_pct is not None}
    pays = bool(slow) and bad.is_image and bad.linked is not None  # whatever the likely rate is, another kernel may run
    if all(rate.mid >= HARDLY for rate in slow.values()) and not pays:
        why: Statement[WhyKind] = say(BOUND[max(known.values(), key=lambda cost: cost.ns).limit])
        return Effect(why, why, free=True)
    low, high = min(r.low for r in slow.values()), max(r.high for r in slow.values())
    calibrated = any(cost.basis == "calibrated" for cost in known.values())  # convolutions were timed on this GPU
    return Effect(
        say(
            "slower",
            passes=passes_of(step, slow),
            low_pct=round(low),
            high_pct=round(high),
            gpu=on,
            padded=_padded(step, bad),
            estimated=convolves(step, bad.dimension) and not calibrated,
        )
    )


def _padded(step: Step, bad: Bad) -> bool:
    """Return whether XLA pads all products that a size affects.

    Source: openxla/xla, cublas_padding_requirements.h (float16 from 7.0, bfloat16 from 8.0). XLA also pads float16
    convolutions that do not grow much, which is not considered here.
    """
    least = XLA_PADS_FROM.get(bad.dtype or "")
    if least is None or step.target.gpu.compute_capability < least or convolves(step, bad.dimension):
        return False
    said = [step.model.products[i].compiled for i in bad.dimension.products]
    return all(step.target.xla if compiled is None else compiled for compiled in said)


def related_of(step: Step, bad: Bad) -> tuple[tuple[Place, Statement[RelatedKind]], ...]:
    """Return the places of the layers that change with a bad size, and how each is related."""
    found: list[tuple[Place, Statement[RelatedKind]]] = []
    for change in bad.linked.changes[1:] if bad.linked else ():
        layer = step.sizes.layers.get(change.layer)
        if layer is None or layer.place is None or layer.name == bad.dimension.layer:
            continue
        kind: RelatedKind = "takes" if change.dimension in INPUTS else "puts_out_same"
        told = change.dimension in (*INPUTS, *OUTPUTS)
        old, new = (change.old, change.new) if told else (None, None)
        named = About(layer.class_name, layer.name)
        found.append((layer.place, say(kind, subject=named, dimension=change.dimension, old=old, new=new)))
    return tuple(dict.fromkeys(found))


def finding_of(step: Step, bad: Bad, says: Statement[FindingKind], why: Statement[WhyKind] | None) -> Finding:
    """Return the finding about a bad size, without a severity."""
    found = about(step, bad.code, says, bad.dimension, bad.suggested, bad.saved)
    evidence = None if bad.saved is None else step.evidence_of(bad.dimension.products)
    return replace(found, dtype=bad.dtype, why=why, related=related_of(step, bad), evidence=evidence)


def about(
    step: Step,
    code: str,
    says: Statement[FindingKind],
    dimension: Dimension,
    suggested: int | None,
    saved: Range | None,
) -> Finding:
    """Return a finding about a dimension, which need not be a layer's, and what the suggestion saves."""
    layer, products = step.sizes.layers.get(dimension.layer), dimension.products
    found = Finding(
        code=code,
        says=says,
        place=place_of(step, dimension),
        layer=dimension.layer or None,
        layer_class=layer.class_name if layer else None,
        dimension=dimension.name,
        size=dimension.size,
        suggested=suggested,
        passes=passes_of(step, products),
    )
    if saved is None:
        return found
    share, basis, whose = step.share_pct(saved), step.basis_of(products), step.constants_of(products)
    return replace(found, saving_ns=saved, saving_pct=share, basis=basis, constants=whose)


def why_unknown(step: Step, indexes: Iterable[int]) -> Statement[WhyKind]:
    """Return why these products, at least one of which has no cost, are not all predicted."""
    missing = [index for index in indexes if step.cost(index) is None]
    open_ = [index for index in missing if not _sized(step.model.products[index].record)]
    if missing and not open_:
        dtype = step.dtype_of(missing[0])
        return say("dtype_unknown") if dtype is None else say("dtype_without_rate", dtype=dtype, gpu=step.gpu.name)
    names = dict.fromkeys(step.model.products[index].layer for index in open_)
    layers = [layer for name in names if name is not None and (layer := step.sizes.layers.get(name)) is not None]
    takes = tuple(dict.fromkeys(size for layer in layers for size in _open_inputs(layer)))
    own = tuple(dict.fromkeys(size for layer in layers for size in _open_settings(layer)))
    return say("product_sizes_unknown", takes=takes, own=own, input=_open_input(step, layers) if takes else None)


def _sized(record: OpRecord) -> bool:
    gemms = gemms_of(record)
    return bool(gemms) and all(product((g.m, g.n, g.k, g.batch)) for g in gemms)


def _sample(layer: Layer) -> list[tuple[InputSize, int | None]] | None:
    """Return the name and size of each dimension of a sample that a layer takes; None where its rank is unknown.

    Channels are taken to be last, as nothing here knows better.
    """
    rank = rank_of(layer.kind)
    shape = layer.input_shapes[0] if layer.input_shapes else None
    if shape is None and rank is not None:
        shape = (None,) * (rank + 2)
    if shape is None:
        return None
    space = _SPACE.get(rank, ())
    rows: list[InputSize] = ["rows"] * (len(shape) - 2)
    names = (*space, "channels") if space and len(shape) == len(space) + 2 else (*rows, "features")
    return list(zip(names, shape[1:], strict=False))  # a sample that is one number has no dimension


def _open_inputs(layer: Layer) -> list[InputSize]:
    sample = _sample(layer)
    return ["shape"] if sample is None else list(dict.fromkeys(name for name, size in sample if size is None))


def _open_settings(layer: Layer) -> list[str]:
    """Return the size that a layer sets itself, if it is not known."""
    name = class_of(layer.kind).output
    return [name] if name and not isinstance(layer.config.get(name), int) else []


def _open_input(step: Step, layers: list[Layer]) -> Sizes | None:
    """Return the model's input that the layers hang on, with a letter for each unknown size.

    Empty where its rank is unknown too; None where something on the way was not followed, so that giving the
    input's sizes would tell nothing of these layers.
    """
    queue, seen = list(layers), {layer.name for layer in layers}
    for layer in queue:
        if not layer.inputs_from and layer.is_first and _open_inputs(layer):
            return tuple(_LETTERS.get(name, "N") if size is None else size for name, size in _sample(layer) or ())
        before = [known for name in layer.inputs_from if (known := step.sizes.layers.get(name)) is not None]
        queue += [known for known in before if known.name not in seen]
        seen.update(known.name for known in before)
    return None
