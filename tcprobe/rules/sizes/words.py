"""Statements and sentences that the rules on sizes share: GPUs, passes, what a bad size does and why."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from tcprobe.cost.alignment import published_pct
from tcprobe.cost.constants import RateFamily
from tcprobe.cost.predict import Cost
from tcprobe.cost.xla import XLA_PADS_FROM
from tcprobe.gemm.ops import family_of
from tcprobe.hardware import Gpu
from tcprobe.rules.base import Says
from tcprobe.rules.model.bad import Bad, convolves
from tcprobe.rules.model.known_gpu import idle
from tcprobe.rules.model.sizes import INPUTS, OUTPUTS, Dimension
from tcprobe.rules.model.step import Step
from tcprobe.rules.model.unknown import why_unknown
from tcprobe.schema.finding import Finding, Severity
from tcprobe.schema.finding_kinds import EffectKind, FindingKind, RelatedKind, WhyKind
from tcprobe.schema.kinds import SIXTEEN_BIT, Limit
from tcprobe.schema.op import PASSES
from tcprobe.schema.place import Place
from tcprobe.schema.statement import About, Statement, say

ESTIMATED: Final = "estimated"  # for convolutions: nobody has published what unaligned sizes cost them
TF32: Final = ("float32", "float", "tf32")  # dtypes that run as TF32 where the GPU can
MAY_LOSE: Final = "; padding it at run time instead may lose"
HARDLY: Final = 97.0  # percent of an aligned product's rate; the rest to 100 is within the error of any measurement
_FORM: Final = re.compile(r"(?<!\s)\s*+(?:\(.*|\bSXM.*|\bPCIe.*|\bNVL.*|\bFE\b.*|\b\d+\s*GB.*)")
UNHURT: Final[Mapping[WhyKind, str]] = {
    "bound_by_launch": "its products are so small that their launch takes the time",
    "bound_by_memory": "its products are bound by memory, not by arithmetic",
    "as_fast_as_aligned": "predicted as fast as aligned",
}
BOUND: Final[Mapping[Limit, WhyKind]] = {
    "launch": "bound_by_launch",
    "memory": "bound_by_memory",
    "compute": "as_fast_as_aligned",
}
"""Why a size costs next to nothing, by what limits its products."""


def _slower(fields: Mapping[str, Any]) -> str:
    run = "run" if len(fields["passes"]) > 1 else "runs"
    padded = "XLA pads it, at the cost of copies: " if fields["padded"] else ""
    apart = f" ({ESTIMATED})" if fields["estimated"] else ""
    return f"{padded}{{passes!l}} {run} at {{low_pct}}-{{high_pct}} % of an aligned one on {{gpu!a}}{apart}"


def _slower_by_unknown(fields: Mapping[str, Any]) -> str:
    if not fields["measured"]:
        return "it may run more slowly, {why}"
    if fields["rate_pct"] is None:
        return "it runs more slowly, {why}"
    return (
        "it runs more slowly (a large product of such a size runs at {rate_pct} % of an aligned one on {gpu!a}), {why}"
    )


def _unknown_sizes(fields: Mapping[str, Any]) -> str:
    said = [f"the {listed(fields['takes'])} of what it takes"] if fields["takes"] else []
    said += [f"its {listed(fields['own'])}"] if fields["own"] else []
    if not said:
        return "how much is unknown: not all sizes of its products are known"
    return f"how much is unknown without {listed(said)}{_to_give(fields)}"


def _to_give(fields: Mapping[str, Any]) -> str:
    if fields["input"] is None:
        return ""
    sizes = ",".join(map(str, fields["input"])) or "SIZES"
    return f"; give the model's input: --input-shape {sizes}"


def _off_cores(fields: Mapping[str, Any]) -> str:
    use = "does" if len(fields["passes"]) == 1 else "do"
    library = " with cuBLAS 10" if fields["cublas10"] else ""
    return f"{{passes!l}} {use} not use Tensor Cores{library} on {{gpu!a}}"


SAYS: Final[Says] = {
    "no_tensor_cores": "no effect: {gpu!a} has no Tensor Cores",
    "no_tensor_cores_for": "no effect: {gpu!a} has no Tensor Cores for {dtype}",
    "plain_float32": "no effect while it computes in float32 without TF32; it counts once precision is lowered",
    "float64": "no effect while it computes in float64",
    "fits_tf32": "costs nothing in TF32, which asks for multiples of 4; float16 asks for 8",
    **{kind: f"costs next to nothing: {said}" for kind, said in UNHURT.items()},
    "product_sizes_unknown": _unknown_sizes,
    "dtype_unknown": "how much is unknown without the dtype that it computes in; give --dtype",
    "dtype_without_rate": "how much is unknown: how fast {gpu!a} multiplies {dtype} is not known",
    "slower_by_unknown": _slower_by_unknown,
    "slower": _slower,
    "off_tensor_cores": _off_cores,
    "takes": lambda fields: f"{{subject}} takes: {{dimension}}{_resized(fields)}",
    "puts_out_same": lambda fields: f"{{subject}} must put out the same: {{dimension}}{_resized(fields)}",
}


def _resized(fields: Mapping[str, Any]) -> str:
    return "" if fields["old"] is None else " {old} -> {new}"


@dataclass(frozen=True, slots=True)
class Effect:
    """What a bad size does to the products that it affects.

    Attributes:
        says: the statement of the effect.
        why: why it costs nothing, or why the cost is unknown; None if the figures say it all.
        free: whether it costs nothing.
    """

    says: Statement[EffectKind | WhyKind]
    why: Statement[WhyKind] | None = None
    free: bool = False


def gpu_name(gpu: Gpu) -> str:
    """Return a GPU's name with its article, without form factor and memory: ``an A100``, ``a Tesla V100``."""
    return with_article(gpu.name)


def with_article(gpu: str) -> str:
    """Return the same for a GPU's full name."""
    name = _FORM.sub("", gpu)
    return f"{'an' if name[0] in 'AHLR' else 'a'} {name}"


def listed(words: Iterable[str]) -> str:
    """Return ``a``, ``a and b``, ``a, b and c``."""
    found = list(words)
    return " and ".join([", ".join(found[:-1]), found[-1]] if len(found) > 1 else found)


def passes_of(step: Step, indexes: Iterable[int]) -> tuple[str, ...]:
    """Return the passes of some products, in the order of training."""
    found = {step.model.products[index].record.pass_ for index in indexes}
    return tuple(p for p in PASSES if p in found)


def subject(step: Step, dimension: Dimension) -> About:
    """Return the subject of a finding about a dimension."""
    layer = step.sizes.layers.get(dimension.layer)
    kind = layer.class_name if layer else _type(step, dimension)
    return About(kind, dimension.layer, dimension.name, dimension.size)


def _type(step: Step, dimension: Dimension) -> str:
    return step.model.products[dimension.products[0]].record.op_type if dimension.products else "op"


def place_of(step: Step, dimension: Dimension) -> Place | None:
    """Return where the user's code sets a dimension: the argument, else the layer, else the op."""
    layer = step.sizes.layers.get(dimension.layer)
    if layer is not None:
        return layer.arguments.get(dimension.name) or layer.place or _op_place(step, dimension)
    return _op_place(step, dimension)


def _op_place(step: Step, dimension: Dimension) -> Place | None:
    return next((p for i in dimension.products if (p := step.model.products[i].place) is not None), None)


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
        why: Statement[WhyKind] = say(bound(known.values()))
        return Effect(why, why, free=True)
    low, high = min(r.low for r in slow.values()), max(r.high for r in slow.values())
    return Effect(
        say(
            "slower",
            passes=passes_of(step, slow),
            low_pct=round(low),
            high_pct=round(high),
            gpu=on,
            padded=_padded(step, bad),
            estimated=convolves(step, bad.dimension) and not _calibrated(known),
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


def _calibrated(known: dict[int, Cost]) -> bool:
    """Return whether the cost of unaligned convolutions was measured on this GPU."""
    return any(cost.basis == "calibrated" for cost in known.values())


def bound(costs: Iterable[Cost]) -> WhyKind:
    """Return why products run nearly as fast as aligned ones, by what limits the longest of them."""
    return BOUND[max(costs, key=lambda cost: cost.ns).limit]


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


def finding_of(
    step: Step,
    bad: Bad,
    says: Statement[FindingKind],
    why: Statement[WhyKind] | None,
    severity: Severity | None = None,
) -> Finding:
    """Return the finding about a bad size."""
    dimension = bad.dimension
    layer = step.sizes.layers.get(dimension.layer)
    saved = bad.saved
    return Finding(
        code=bad.code,
        says=says,
        place=place_of(step, dimension),
        severity=severity,
        layer=dimension.layer,
        layer_class=layer.class_name if layer else None,
        dimension=dimension.name,
        size=dimension.size,
        suggested=bad.suggested,
        passes=passes_of(step, dimension.products),
        dtype=bad.dtype,
        saving_ns=saved,
        saving_pct=step.share_pct(saved) if saved is not None else None,
        why=why,
        basis=step.basis_of(dimension.products) if saved is not None else None,
        constants=step.constants_of(dimension.products) if saved is not None else None,
        related=related_of(step, bad),
        evidence=step.evidence_of(dimension.products) if saved is not None else None,
    )
