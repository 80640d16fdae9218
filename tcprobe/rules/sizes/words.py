"""What the rules on sizes say: of GPUs, of passes, of what a bad size does, and why it may do nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tcprobe.cost.predict import Cost
from tcprobe.cost.xla import XLA_PADS_FROM
from tcprobe.hardware import Gpu
from tcprobe.rules.model.bad import Bad, convolves
from tcprobe.rules.model.sizes import INPUTS, OUTPUTS, Dimension
from tcprobe.rules.model.step import Step
from tcprobe.schema.finding import Finding, Severity
from tcprobe.schema.place import Place

PASSES: Final = ("forward", "dgrad", "wgrad", "other")
ESTIMATED: Final = "estimated"  # of convolutions: what unaligned ones lose was never measured in public
HARDLY: Final = 97.0  # percent of an aligned product's rate; what is missing to 100 is within any error
_FORM: Final = re.compile(r"\s*(?:\(.*|\bSXM.*|\bPCIe.*|\bNVL.*|\bFE\b.*|\b\d+\s*GB.*)")


@dataclass(frozen=True, slots=True)
class Effect:
    """What a bad size does to the products that it touches.

    Attributes:
        text: what, in half a sentence.
        why: why it costs nothing, or why the cost is not known; None where the figures say it all.
        free: whether it costs nothing.
    """

    text: str
    why: str | None = None
    free: bool = False


def gpu_name(gpu: Gpu) -> str:
    """Return a GPU's name with its article, without form and memory: ``an A100``, ``a Tesla V100``."""
    name = _FORM.sub("", gpu.name)
    return f"{'an' if name[0] in 'AHLR' else 'a'} {name}"


def listed(words: Iterable[str]) -> str:
    """Return ``a``, ``a and b``, ``a, b and c``."""
    found = list(words)
    return " and ".join([", ".join(found[:-1]), found[-1]] if len(found) > 1 else found)


def passes_of(step: Step, indexes: Iterable[int]) -> tuple[str, ...]:
    """Return the passes of products, in the order of training."""
    found = {step.model.products[index].record.pass_ for index in indexes}
    return tuple(p for p in PASSES if p in found)


def subject(step: Step, dimension: Dimension, name: str | None = None) -> str:
    """Return ``Conv2D 'conv2d_1' filters=31``."""
    layer = step.sizes.layers.get(dimension.layer)
    kind = f"{layer.class_name} " if layer else f"{_type(step, dimension)} "
    return f"{kind}'{dimension.layer}' {name or dimension.name}={dimension.size}"


def _type(step: Step, dimension: Dimension) -> str:
    return step.model.products[dimension.products[0]].record.op_type if dimension.products else "op"


def place_of(step: Step, dimension: Dimension) -> Place | None:
    """Return where the user's code sets a dimension: its argument, else the layer, else the op."""
    layer = step.sizes.layers.get(dimension.layer)
    if layer is not None:
        return layer.arguments.get(dimension.name) or layer.place or _op_place(step, dimension)
    return _op_place(step, dimension)


def _op_place(step: Step, dimension: Dimension) -> Place | None:
    return next((p for i in dimension.products if (p := step.model.products[i].place) is not None), None)


def idle(step: Step, dtype: str | None) -> str | None:
    """Return why no size matters to a dtype on this GPU; None where sizes matter."""
    target = step.target
    if not target.gpu.tensor_cores:
        return f"no effect: {gpu_name(target.gpu)} has no Tensor Cores"
    if dtype in ("bfloat16", "float8") and target.gpu.peak_flop_per_s(dtype) is None:
        return f"no effect: {gpu_name(target.gpu)} has no Tensor Cores for {dtype}"
    ready = target.tf32 and target.gpu.compute_capability >= (8, 0)
    if dtype in ("float32", "float") and not ready:
        return "no effect while it computes in float32 without TF32; it counts once precision is lowered"
    if dtype in ("float64", "double"):
        return "no effect while it computes in float64"
    return None


def effect(step: Step, bad: Bad) -> Effect:
    """Return what a bad size does, pass by pass as predicted."""
    if (why := idle(step, bad.dtype)) is not None:
        return Effect(why, why, free=True)
    if bad.dtype in ("float32", "float", "tf32") and bad.dimension.size % 4 == 0:
        why = "costs nothing in TF32, which asks for multiples of 4; float16 asks for 8"
        return Effect(why, why, free=True)
    known = {i: cost for i in bad.dimension.products if (cost := step.costs[i]) is not None}
    if not known:
        why = "how much is unknown: not all sizes of its products are known"
        return Effect(f"it runs more slowly, {why}", why)
    return _rated(step, bad, known)


def _rated(step: Step, bad: Bad, known: dict[int, Cost]) -> Effect:
    on = gpu_name(step.target.gpu)
    off = [i for i, cost in known.items() if cost.uses_tc == "no"]
    if off:
        use = "does" if len(passes_of(step, off)) == 1 else "do"
        library = f" with {_library(step)}" if step.target.library == "cublas10" else ""
        return Effect(f"{listed(passes_of(step, off))} {use} not use Tensor Cores{library} on {on}")
    slow = {i: cost.rate_pct for i, cost in known.items() if cost.rate_pct is not None}
    if all(rate.mid >= HARDLY for rate in slow.values()):
        why = f"costs next to nothing: {unhurt(known.values())}"
        return Effect(why, why, free=True)
    named = passes_of(step, slow)
    padded = "XLA pads it, at the cost of copies: " if _padded(step, bad) else ""
    run = "run" if len(named) > 1 else "runs"
    low, high = min(r.low for r in slow.values()), max(r.high for r in slow.values())
    apart = f" ({ESTIMATED})" if convolves(step, bad.dimension) and not _calibrated(known) else ""
    return Effect(f"{padded}{listed(named)} {run} at {low:.0f}-{high:.0f} % of an aligned one on {on}{apart}")


def _padded(step: Step, bad: Bad) -> bool:
    """Return whether XLA pads all products that a size touches.

    Source: openxla/xla, cublas_padding_requirements.h (float16 from 7.0, bfloat16 from 8.0). Of convolutions it pads
    those in float16 that do not grow much, which is not told here.
    """
    least = XLA_PADS_FROM.get(bad.dtype or "")
    if least is None or step.target.gpu.compute_capability < least or convolves(step, bad.dimension):
        return False
    said = [step.model.products[i].compiled for i in bad.dimension.products]
    return all(step.target.xla if compiled is None else compiled for compiled in said)


def _calibrated(known: dict[int, Cost]) -> bool:
    """Return whether what unaligned convolutions lose was measured on this GPU."""
    return any(cost.basis == "calibrated" for cost in known.values())


def _library(step: Step) -> str:
    return step.target.library.replace("cublas", "cuBLAS ")


def unhurt(costs: Iterable[Cost]) -> str:
    """Return why products that run nearly as fast as aligned ones do, by what bounds the longest of them."""
    longest = max(costs, key=lambda cost: cost.ns)
    if longest.limit == "launch":
        return "its products are so small that their launch takes the time"
    if longest.limit == "memory":
        return "its products are bound by memory, not by arithmetic"
    return "predicted as fast as aligned"


def related_of(step: Step, bad: Bad) -> tuple[tuple[Place, str], ...]:
    """Return the places of the layers that change with a bad size, each with a phrase."""
    found = []
    for change in bad.linked.changes[1:] if bad.linked else ():
        layer = step.sizes.layers.get(change.layer)
        if layer is None or layer.place is None or layer.name == bad.dimension.layer:
            continue
        takes = "takes" if change.dimension in INPUTS else "must put out the same"
        size = f" {change.old} -> {change.new}" if change.dimension in (*INPUTS, *OUTPUTS) else ""
        found.append((layer.place, f"{layer.class_name} '{layer.name}' {takes}: {change.dimension}{size}"))
    return tuple(dict.fromkeys(found))


def finding_of(step: Step, bad: Bad, text: str, why: str | None, severity: Severity | None = None) -> Finding:
    """Return the finding on a bad size; `text` is the whole message."""
    dimension = bad.dimension
    layer = step.sizes.layers.get(dimension.layer)
    saved = bad.saved
    basis = next((cost.basis for i in dimension.products if (cost := step.costs[i]) is not None), None)
    return Finding(
        code=bad.code,
        message=text,
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
        basis=basis if saved is not None else None,
        related=related_of(step, bad),
    )
