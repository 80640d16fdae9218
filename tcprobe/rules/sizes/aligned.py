"""TC101, TC103, TC104, TC105, TC106: sizes that break the rule of 8, each told by the rule that `Bad` names."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Final

from msgspec.structs import replace

from tcprobe.rules.base import Says, Subject
from tcprobe.rules.model.bad import Bad, convolves
from tcprobe.rules.model.settled import settled_sizes
from tcprobe.rules.model.sizes import HEADS, INPUTS, OUTPUTS, Dimension
from tcprobe.rules.model.step import Step, total_range
from tcprobe.rules.sizes.findings import Effect, effect, finding_of, is_timed, subject_of, why_unknown
from tcprobe.rules.words import MAY_LOSE
from tcprobe.schema.finding import COST_UNKNOWN, AddedKind, EffectKind, Finding, FindingKind, Range, Severity, WhyKind
from tcprobe.schema.kinds import SIXTEEN_BIT
from tcprobe.schema.statement import Both, Statement, say

LARGE: Final = 1024
"""Of unknown cost, a smaller size is too rarely a percent of a step to warn of; a judgement."""
DIRECT: Final = "its weight gradient may fall to a kernel on CUDA cores (26 % of a GAN's step in float16 on an A100)"
NO_GAIN: Final[Statement[WhyKind]] = say("no_gain")
WHY_DEPTHWISE: Final[Statement[WhyKind]] = say("depthwise")
Added = Statement[AddedKind]

_LATER: Final = "; in float16 its weight gradient may leave Tensor Cores: check again then"
SAYS: Final[Says] = {
    "not_a_multiple": lambda subject, multiple, effect, added: Both(
        f"{subject} is not a multiple of {multiple}", f"{effect}{''.join(added)}"
    ),
    "no_gain": "8 filters would cost as much as they gain",
    "nothing_saved": lambda suggested: f"nothing saved: at {suggested} its products cost as much as they gain",
    "leave_filters": lambda why, until_half: f"leave it, {why}{_LATER if until_half else ''}",
    "wgrad_on_cuda_cores": lambda filters: DIRECT if filters == 1 else DIRECT.replace("(", "(with 1 filter "),
    "more_filters": lambda filters, keep: (
        f"; give it {filters} filters, keep the first{'' if keep == 1 else f' {keep}'} (slice) and measure"
    ),
    "data_sets_it": "; the data sets it, and zeros can fill it up",
    "feed_sets_it": "; it follows from what feeds this layer",
    "must_fit": lambda reason: f"; what comes before and after must fit it: {reason}",
    "padding_may_lose": MAY_LOSE,
    "labels_unused": "; no label uses the entries added",
    "group_not_a_multiple": lambda subject, groups, multiple, effect, added: Both(
        f"{subject} ({groups} groups) is not a multiple of {multiple}", f"{effect}{''.join(added)}"
    ),
    "groups_unpadded": "; XLA does not pad it; fewer groups of 8 channels or more would be aligned",
    "depthwise": "a depthwise convolution, which memory bounds; a DepthwiseConv2D says so to every library",
    "against_aligned_groups": "its cost is what it loses against aligned groups, which is another model",
    "best_left": lambda subject, multiple, why: Both(f"{subject} is not a multiple of {multiple}, leave it", why),
    "tiny_product": "a product with so small a dimension is bound by memory and launches, not by arithmetic",
    "next_input_sets": "the input of the model that takes it declares this size",
    "joined_data_sets": "data of a size of their own meet it: added to it, joined with it, or compared with it",
    "saved_file_sets": "weights of this size are loaded from a file",
    "package_sets": "the package that makes the model sets it, not this code",
    "reshape_sets": "a shape behind it, which does not change with it, asks for this size",
    "length_sets": "it is how many rows the operands have (positions, samples), which the data set",
    "feed_sets": "it follows from what feeds this layer, which was not followed",
    "labels_set": "what the model is trained to put out has this size (labels, images, actions)",
    "few_channels_slower": (
        "padding so few input channels to 8 ran slower where it was measured (1 and 3 channels, V100 and T4)"
    ),
}


def tc101(given: Subject) -> Iterator[Finding]:
    """Yield each bad size that a layer sets itself and that no other rule reports."""
    return (_finding(given.step, bad) for bad in _bad(given.step, "TC101"))


def tc103(given: Subject) -> Iterator[Finding]:
    """Yield one finding per grouped convolution, about the channels of a group rather than its filters."""
    for _, found in groupby(_bad(given.step, "TC103"), key=lambda bad: bad.dimension.layer):
        yield _of_group(given.step, min(found, key=lambda bad: bad.dimension.name))


def tc104(given: Subject) -> Iterator[Finding]:
    """Yield a note for each size of image channels and of tiny output layers, which are best left as they are."""
    for bad in _bad(given.step, "TC104"):
        channels = convolves(given.step, bad.dimension)
        why: Statement[WhyKind] = bad.fixed or say("few_channels_slower" if channels else "tiny_product")
        about = subject_of(given.step, bad.dimension)
        says: Statement[FindingKind] = say("best_left", subject=about, multiple=bad.multiple, why=why)
        yield replace(finding_of(given.step, bad, says, why), severity="note")


def tc105(given: Subject) -> Iterator[Finding]:
    """Yield each vocabulary size that breaks the rule."""
    words = bool(given.step.sizes.vocabularies)
    for bad in _bad(given.step, "TC105"):
        found = _finding(given.step, bad, say("labels_unused"))
        yield found if words else replace(found, severity="note")  # classes, whose number the labels set


def tc106(given: Subject) -> Iterator[Finding]:
    """Yield each size of an attention head that breaks the rule."""
    return (_finding(given.step, bad) for bad in _bad(given.step, "TC106"))


def _bad(step: Step, code: str) -> Iterator[Bad]:
    return (bad for bad in settled_sizes(step) if bad.code == code)


def _finding(step: Step, bad: Bad, *more: Added) -> Finding:
    """Return the finding: the effect on each pass, what else must change, and why it costs nothing if so."""
    does = effect(step, bad)
    if does.free and bad.saved is not None:  # only the time of a few elements more or less
        bad = replace(bad, saved=Range(0.0, 0.0, 0.0))
    told: Statement[EffectKind | WhyKind] = does.says
    if not does.free and bad.linked is None:  # an image, of which more filters gain nothing
        told = say("leave_filters", why=NO_GAIN, until_half=bad.dtype not in SIXTEEN_BIT)
    elif not does.free:
        told = _direct(step, bad) or told
    padded = None if does.free else step.padding_pct(bad.dimension.products)
    added = () if does.free else tuple(_remarks(step, bad, padded))
    about = subject_of(step, bad.dimension)
    says: Statement[FindingKind] = say(
        "not_a_multiple", subject=about, multiple=bad.multiple, effect=told, added=(*added, *more)
    )
    why, severity = _why(step, bad, does), _severity(step, bad, does)
    if why is not None and why.kind == "nothing_saved":  # which is no advice
        severity = "note"
    return replace(finding_of(step, bad, says, why), severity=severity, padding_pct=padded)


def _severity(step: Step, bad: Bad, does: Effect) -> Severity | None:
    """Return the severity where no saving decides on it: one is unknown, or rests on kernels that nobody timed."""
    if does.free or bad.linked is None:
        return "note"
    if bad.is_image and step.evidence_of(bad.dimension.products) != "timed":
        return "note"
    return "warning" if _warns_unknown(step, bad, does) else None


def _warns_unknown(step: Step, bad: Bad, does: Effect) -> bool:
    """Return whether a size of unknown cost is worth a warning: a layer sets it, and such products were timed.

    Sizes of the data are left out, which no layer sets.
    """
    if does.why is None or does.why.kind not in COST_UNKNOWN or bad.dimension.size < LARGE or step.is_short:
        return False
    chosen = bad.dimension.name in (*OUTPUTS, *HEADS) or bad.code == "TC105"
    return chosen and bool(bad.dimension.products) and is_timed(step, bad)


def _direct(step: Step, bad: Bad) -> Statement[EffectKind] | None:
    """Return the risk for a convolution with few filters in 16 bits, which says more than its rate; None for others.

    A transposed one is another kernel's: what it puts out are channels there. XLA was seen to take another kernel.
    Source: a GAN profiled on an A100, argonne-lcf/CompPerfWorkshop-2021 (`wgrad2d_grouped_direct_kernel`).
    """
    grads = [i for i in bad.dimension.products if step.model.products[i].record.pass_ == "wgrad"]
    threatened = bad.is_image and bad.dtype in SIXTEEN_BIT and not all(step.compiled(index) for index in grads)
    if not threatened or not step.gpu.tensor_cores or bad.dimension.layer in step.sizes.transposed:
        return None
    return say("wgrad_on_cuda_cores", filters=bad.dimension.size)


def _remarks(step: Step, bad: Bad, padded: Range | None) -> Iterator[Added]:
    """Yield what to do with a size and what else to take care of; `padded` is what padding at run time saves."""
    name = bad.dimension.name
    # in 16 bits the weight gradient of an image alone is worth a measurement, whatever the sizes are
    if bad.is_image and bad.linked is not None and (bad.saved is not None or bad.dtype in SIXTEEN_BIT):
        yield say("more_filters", filters=bad.suggested, keep=bad.dimension.size)
    if name in INPUTS and not step.sizes.feeds.get(bad.dimension.layer):
        layer = step.sizes.layers.get(bad.dimension.layer)
        yield say("feed_sets_it" if layer is None or layer.is_first is False else "data_sets_it")
    if bad.linked is not None and bad.linked.reason:
        yield say("must_fit", reason=bad.linked.reason)
    if padded is not None and padded.low <= 0:  # it copies the operands
        yield say("padding_may_lose")


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


def _of_group(step: Step, bad: Bad) -> Finding:
    size, layer = bad.dimension.size, bad.dimension.layer
    groups = step.sizes.groups(layer)
    whole = Dimension(layer, f"{bad.dimension.name} per group", size, tuple(step.products_of(layer)))
    lost = _lost(step, whole)
    told = Bad(whole, bad.code, bad.dtype, bad.multiple, saved=lost)
    does = effect(step, told)

    severity: Severity | None = "note" if does.free or lost is None else None
    says, added = does.says, () if does.free else (say("groups_unpadded"),)
    why: Statement[WhyKind] = does.why or say("against_aligned_groups")
    if bad.is_depthwise and not does.free:
        told = replace(told, saved=None)
        says, added, why, severity = WHY_DEPTHWISE, (), WHY_DEPTHWISE, "note"
    about = subject_of(step, whole)
    said: Statement[FindingKind] = say(
        "group_not_a_multiple", subject=about, groups=groups, multiple=bad.multiple, effect=says, added=added
    )
    return replace(finding_of(step, told, said, why), severity=severity)


def _lost(step: Step, dimension: Dimension) -> Range | None:
    """Return how much longer per step the products take than aligned ones; None if not longer."""
    found = []
    for index in dimension.products:
        cost = step.costs[index]
        if cost is not None and (rate := cost.rate_pct) is not None:
            lost = Range(*(cost.ns * (1 - pct / 100) for pct in (rate.high, rate.mid, rate.low)))
            found.append(lost.scaled(step.model.products[index].calls))
    return total_range(found)
