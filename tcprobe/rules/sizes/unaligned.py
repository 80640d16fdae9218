"""The sentence on a size that breaks the rule of 8, which TC101 and TC105 share."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tcprobe.rules.model.bad import Bad
from tcprobe.rules.model.heads import NAMES
from tcprobe.rules.model.links import is_image
from tcprobe.rules.model.sizes import INPUTS
from tcprobe.rules.model.step import Step
from tcprobe.rules.sizes.words import Effect, effect, finding_of, subject
from tcprobe.schema.finding import Finding, Range

HALVES: Final = ("float16", "half", "bfloat16")
NO_GAIN: Final = "8 filters would cost as much as they gain"
DIRECT: Final = "its weight gradient may fall to a kernel on CUDA cores (42 % of a GAN's step in float16 on an A100)"


def finding_on(step: Step, bad: Bad, hint: str = "") -> Finding:
    """Return the finding: what it does pass by pass, what must fit it, and why it costs nothing where it does not.

    Args:
        step: the costs.
        bad: the size.
        hint: what else to say, from its own comma or semicolon on.
    """
    does = effect(step, bad)
    if does.free and bad.saved is not None:  # what is left is the few elements more or less
        bad = replace(bad, saved=Range(0.0, 0.0, 0.0))
    told = does.text if does.free else _few(step, bad) or does.text
    follows = "" if does.free else f"{_image(bad)}{_data(step, bad)}{_fits(step, bad)}"
    text = f"{subject(step, bad.dimension)} is not a multiple of {bad.multiple}: {told}{follows}{hint}"
    return finding_of(step, bad, text, _why(bad, does), "note" if does.free or bad.linked is None else None)


def _image(bad: Bad) -> str:
    """Return what to do with a convolution whose filters are an image."""
    if not is_image(bad.dimension.name, bad.dimension.size):
        return ""
    size = bad.dimension.size
    kept = "the first" if size == 1 else f"the first {size}"
    return "" if bad.linked is None else f"; give it {bad.suggested} filters, keep {kept} (slice) and measure"


def _few(step: Step, bad: Bad) -> str | None:
    """Return what to say of a convolution whose filters are an image in place of its rate; None elsewhere."""
    return _left(bad) if bad.linked is None else _direct(step, bad)


def _left(bad: Bad) -> str:
    """Return why a convolution whose filters are an image is best left as it is, and until when."""
    later = "" if bad.dtype in HALVES else f"; judge it again before you change to float16: {DIRECT}"
    return f"leave it, {NO_GAIN}{later}"


def _direct(step: Step, bad: Bad) -> str | None:
    """Return what threatens a convolution of few filters in 16 bits, which says more than its rate; None elsewhere.

    Source: NVIDIA Deep Learning Examples, a GAN profiled on an A100 (`wgrad2d_grouped_direct_kernel`).
    """
    image = bad.linked is not None and is_image(bad.dimension.name, bad.dimension.size)
    if not image or bad.dtype not in HALVES or "wgrad" not in _passes(step, bad) or not step.target.gpu.tensor_cores:
        return None
    return DIRECT


def _passes(step: Step, bad: Bad) -> set[str | None]:
    return {step.model.products[i].record.pass_ for i in bad.dimension.products}


def _data(step: Step, bad: Bad) -> str:
    """Return where a size stands that no layer of the model sets."""
    if bad.dimension.name not in INPUTS or step.sizes.feeds.get(bad.dimension.layer):
        return ""
    layer = step.sizes.layers.get(bad.dimension.layer)
    if layer is not None and layer.is_first is not False:
        return "; the data sets it, and zeros can fill it up"
    return "; it follows from what feeds this layer"


def _fits(step: Step, bad: Bad) -> str:
    if bad.linked is not None and bad.linked.reason:
        return f"; what comes before and after must fit it: {bad.linked.reason}"
    name = bad.dimension.name
    if bad.code == "TC105" or name in (*INPUTS, *NAMES) or is_image(name, bad.dimension.size):
        return ""
    if any(layer.is_last for layer in step.sizes.tail(bad.dimension.layer)):
        return f"; what takes the output must keep the first {bad.dimension.size}"
    return ""


def _why(bad: Bad, does: Effect) -> str | None:
    """Return why a size costs or saves nothing; None where it does."""
    if does.why is not None:
        return does.why
    if bad.linked is None:
        return NO_GAIN
    if bad.saved is not None and bad.saved.mid <= 0:
        return f"nothing saved: at {bad.suggested} its products cost as much as they gain"
    return None
