"""Build the finding on a size that breaks the rule of 8, for TC101, TC105 and TC106."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tcprobe.rules.base import Says
from tcprobe.rules.model.bad import Bad
from tcprobe.rules.model.heads import NAMES
from tcprobe.rules.model.sizes import INPUTS, OUTPUTS
from tcprobe.rules.model.step import Step
from tcprobe.rules.model.unknown import why_unknown
from tcprobe.rules.sizes.words import MAY_LOSE, Effect, effect, finding_of, is_timed, subject
from tcprobe.schema.finding import Finding, Range, Severity
from tcprobe.schema.finding_kinds import COST_UNKNOWN, AddedKind, EffectKind, WhyKind
from tcprobe.schema.kinds import SIXTEEN_BIT
from tcprobe.schema.statement import Statement, say

_CHOICES: Final = ("softmax", "sigmoid")
TILE: Final = 128
"""A smaller size is less than one tile of the fastest kernels, and its products may be bound by memory."""
DIRECT: Final = "its weight gradient may fall to a kernel on CUDA cores (42 % of a GAN's step in float16 on an A100)"
NO_GAIN: Final[Statement[WhyKind]] = say("no_gain")
Added = Statement[AddedKind]

_LATER: Final = f"; judge it again before you change to float16: {DIRECT}"
SAYS: Final[Says] = {
    "not_a_multiple": ("{subject} is not a multiple of {multiple}", "{effect}{added}"),
    "no_gain": "8 filters would cost as much as they gain",
    "nothing_saved": "nothing saved: at {suggested} its products cost as much as they gain",
    "leave_filters": lambda fields: f"leave it, {{why}}{_LATER if fields['until_half'] else ''}",
    "wgrad_on_cuda_cores": lambda fields: DIRECT if fields["filters"] == 1 else DIRECT.replace("(", "(with 1 filter "),
    "more_filters": lambda fields: (
        f"; give it {{filters}} filters, keep the first{'' if fields['keep'] == 1 else ' {keep}'} (slice) and measure"
    ),
    "data_sets_it": "; the data sets it, and zeros can fill it up",
    "feed_sets_it": "; it follows from what feeds this layer",
    "must_fit": "; what comes before and after must fit it: {reason}",
    "padding_may_lose": MAY_LOSE,
    "keep_first": "; what takes the output must keep the first {size}",
}


def finding_on(step: Step, bad: Bad, *more: Added) -> Finding:
    """Return the finding: the effect on each pass, what else must change, and why it costs nothing if so.

    Args:
        step: the costs.
        bad: the size.
        more: remarks to add.
    """
    does = effect(step, bad)
    if does.free and bad.saved is not None:  # only the time of a few elements more or less
        bad = replace(bad, saved=Range(0.0, 0.0, 0.0))
    told = does.says if does.free else _few(step, bad) or does.says
    padded = None if does.free else step.padding_pct(bad.dimension.products)
    added = () if does.free else (*_image(bad), *_data(step, bad), *_fits(step, bad), *_padding(padded))
    about = subject(step, bad.dimension)
    found = finding_of(
        step,
        bad,
        say("not_a_multiple", subject=about, multiple=bad.multiple, effect=told, added=(*added, *more)),
        _why(step, bad, does),
        _severity(step, bad, does),
    )
    return replace(found, padding_pct=padded)


def _severity(step: Step, bad: Bad, does: Effect) -> Severity | None:
    """Return the severity where no saving decides on it: one is unknown, or rests on kernels that nobody timed."""
    if does.free or bad.linked is None:
        return "note"
    if bad.is_image and step.evidence_of(bad.dimension.products) != "timed":
        return "note"
    return "warning" if _warns_unknown(step, bad, does) else None


def _warns_unknown(step: Step, bad: Bad, does: Effect) -> bool:
    """Return whether a size of unknown cost is worth a warning: a layer sets it, and such products were timed.

    Sizes of the data are left out, which no layer sets, and the labels, which only the last layer counts.
    """
    if does.why is None or does.why.kind not in COST_UNKNOWN or bad.dimension.size < TILE:
        return False
    chosen = bad.dimension.name in (*OUTPUTS, *NAMES) or bad.code == "TC105"
    return chosen and bool(bad.dimension.products) and is_timed(step, bad) and not _counts_labels(step, bad)


def _counts_labels(step: Step, bad: Bad) -> bool:
    """Return whether a size is a number of classes: of an output that is a choice, behind other layers.

    One as large as a vocabulary is TC105's.
    """
    layer = step.sizes.layers.get(bad.dimension.layer)
    if layer is None or layer.is_first or bad.code != "TC101" or bad.dimension.name not in OUTPUTS:
        return False
    tail = [known for known in step.sizes.tail(layer.name) if known.is_last]
    return any(known.kind == "Softmax" or known.config.get("activation") in _CHOICES for known in tail)


def _padding(saved: Range | None) -> tuple[Added, ...]:
    """Return that padding at run time, which copies the operands, may lose, if so."""
    if saved is None or saved.low > 0:
        return ()
    return (say("padding_may_lose"),)


def _image(bad: Bad) -> tuple[Added, ...]:
    """Return what to do with a convolution whose filters are an image; nothing where that may not pay.

    In 16 bits the weight gradient alone is worth a measurement, whatever the sizes are.
    """
    if bad.linked is None or not bad.is_image or (bad.saved is None and bad.dtype not in SIXTEEN_BIT):
        return ()
    return (say("more_filters", filters=bad.suggested, keep=bad.dimension.size),)


def _few(step: Step, bad: Bad) -> Statement[EffectKind] | None:
    """Return the statement that replaces the rate of a convolution whose filters are an image; None for others."""
    return _left(bad) if bad.linked is None else _direct(step, bad)


def _left(bad: Bad) -> Statement[EffectKind]:
    """Return why a convolution whose filters are an image is best left as it is, and until when."""
    return say("leave_filters", why=NO_GAIN, until_half=bad.dtype not in SIXTEEN_BIT)


def _direct(step: Step, bad: Bad) -> Statement[EffectKind] | None:
    """Return the risk for a convolution with few filters in 16 bits, which says more than its rate; None for others.

    A transposed one is another kernel's: what it puts out are channels there. Source: NVIDIA Deep Learning Examples, a
    GAN profiled on an A100 (`wgrad2d_grouped_direct_kernel`).
    """
    threatened = bad.linked is not None and bad.is_image and bad.dtype in SIXTEEN_BIT and "wgrad" in _passes(step, bad)
    if not threatened or not step.gpu.tensor_cores or bad.dimension.layer in step.sizes.transposed:
        return None
    return say("wgrad_on_cuda_cores", filters=bad.dimension.size)


def _passes(step: Step, bad: Bad) -> set[str | None]:
    return {step.model.products[i].record.pass_ for i in bad.dimension.products}


def _data(step: Step, bad: Bad) -> tuple[Added, ...]:
    """Return where a size is set that no layer of the model sets."""
    if bad.dimension.name not in INPUTS or step.sizes.feeds.get(bad.dimension.layer):
        return ()
    layer = step.sizes.layers.get(bad.dimension.layer)
    if layer is not None and layer.is_first is not False:
        return (say("data_sets_it"),)
    return (say("feed_sets_it"),)


def _fits(step: Step, bad: Bad) -> tuple[Added, ...]:
    """Return what else to take care of if a layer's size changes."""
    if bad.linked is not None and bad.linked.reason:
        return (say("must_fit", reason=bad.linked.reason),)
    name = bad.dimension.name
    if bad.code == "TC105" or name in (*INPUTS, *NAMES) or bad.is_image:
        return ()
    if any(layer.is_last for layer in step.sizes.tail(bad.dimension.layer)):
        return (say("keep_first", size=bad.dimension.size),)
    return ()


def _why(step: Step, bad: Bad, does: Effect) -> Statement[WhyKind] | None:
    """Return why a size costs or saves nothing; None if it does."""
    if does.why is not None:
        return does.why
    if bad.linked is None:
        return NO_GAIN
    if bad.saved is not None and bad.saved.mid <= 0:
        touched = list(dict.fromkeys(index for change in bad.linked.changes for index in step.touched(change)))
        if any(step.cost(index) is None for index in touched):  # what they save is not in it
            return why_unknown(step, touched)
        return say("nothing_saved", suggested=bad.suggested)
    return None
