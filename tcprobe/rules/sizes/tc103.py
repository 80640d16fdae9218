"""TC103: finds badly sized channels in the groups of a grouped convolution."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from typing import Final

from tcprobe.rules.base import RuleDoc, Says, Subject
from tcprobe.rules.model.bad import Bad
from tcprobe.rules.model.settled import settled_sizes
from tcprobe.rules.model.sizes import Dimension
from tcprobe.rules.model.step import Step, total_range
from tcprobe.rules.sizes.words import effect, finding_of
from tcprobe.rules.sizes.words import subject as named
from tcprobe.schema.finding import Finding, Range
from tcprobe.schema.finding_kinds import AddedKind, EffectKind, FindingKind, WhyKind
from tcprobe.schema.statement import Statement, say

DOC = RuleDoc(
    code="TC103",
    name="unaligned-group",
    summary="One group of a grouped convolution has channels or filters that are not a multiple of 8.",
    explanation=(
        "A grouped convolution multiplies each group by itself: what counts for Tensor Cores is the channels and "
        "filters of one group, not of all. cuDNN 8.2 asks for 4, 8, 16 or 32 channels a group; XLA never pads a "
        "grouped convolution. In float16 grouped convolutions were reported 15 times slower than in float32 (4 "
        "groups, TITAN RTX) and 35 times slower in channels-last order (V100); no public measurement covers all "
        "sizes. Fewer groups of 8 or more channels, or a DepthwiseConv2D where each group has one channel, avoid "
        "it: both are another model, so nothing is changed for you."
    ),
    severity=(
        "A note where a group has one channel (a depthwise convolution). Else from what it loses against aligned "
        "groups: error where that is likely 5 % of the step or more, warning from 1 %, else note, also where its cost "
        "is unknown. The worst case is a judgement and decides nothing."
    ),
    bad="layers.Conv2D(128, 3, groups=32)  # 4 channels a group",
    good="layers.Conv2D(128, 3, groups=16)  # 8 channels a group",
    sources=(
        "cuDNN 8.2 and 8.3 release notes and best practices: grouped convolutions",
        "openxla/xla, cudnn_pad_for_convolutions.cc: grouped convolutions are left alone",
        "NVIDIA/apex#712, pytorch/pytorch#34977 and #54324: reported slowdowns",
    ),
)
SAYS: Final[Says] = {
    "group_not_a_multiple": ("{subject} ({groups} groups) is not a multiple of {multiple}", "{effect}{added}"),
    "groups_unpadded": "; XLA does not pad it; fewer groups of 8 channels or more would be aligned",
    "depthwise": "a depthwise convolution, which memory bounds; a DepthwiseConv2D says so to every library",
    "against_aligned_groups": "its cost is what it loses against aligned groups, which is another model",
}
WHY_DEPTHWISE: Final[Statement[WhyKind]] = say("depthwise")
UNPADDED: Final[Statement[AddedKind]] = say("groups_unpadded")


def check(subject: Subject) -> Iterator[Finding]:
    """Yield one finding per grouped convolution, about the channels of a group rather than its filters."""
    step = subject.step
    own = [bad for bad in settled_sizes(step) if bad.code == DOC.code]
    for _, found in groupby(own, key=lambda bad: bad.dimension.layer):
        yield _finding(step, min(found, key=lambda bad: bad.dimension.name))


def is_depthwise(bad: Bad) -> bool:
    """Return whether a group has one channel, so that memory bounds it whatever is changed."""
    return bad.dimension.size == 1


def _finding(step: Step, bad: Bad) -> Finding:
    size, layer = bad.dimension.size, bad.dimension.layer
    groups = step.sizes.groups(layer)
    whole = Dimension(layer, f"{bad.dimension.name} per group", size, tuple(step.products_of(layer)))
    lost = _lost(step, whole)
    told = Bad(whole, bad.code, bad.dtype, bad.multiple, None, lost)
    does = effect(step, told)

    def says(effect: Statement[EffectKind | WhyKind], *added: Statement[AddedKind]) -> Statement[FindingKind]:
        about = named(step, whole)
        return say(
            "group_not_a_multiple", subject=about, groups=groups, multiple=bad.multiple, effect=effect, added=added
        )

    if is_depthwise(bad) and not does.free:
        return finding_of(step, replace(told, saved=None), says(WHY_DEPTHWISE), WHY_DEPTHWISE, "note")
    said = says(does.says) if does.free else says(does.says, UNPADDED)
    why: Statement[WhyKind] = does.why or say("against_aligned_groups")
    return finding_of(step, told, said, why, "note" if does.free or lost is None else None)


def _lost(step: Step, dimension: Dimension) -> Range | None:
    """Return how much longer per step the products take than aligned ones; None if not longer."""
    found = []
    for index in dimension.products:
        cost = step.costs[index]
        if cost is not None and cost.rate_pct is not None:
            lost = (1 - rate / 100 for rate in (cost.rate_pct.high, cost.rate_pct.mid, cost.rate_pct.low))
            low, mid, high = (cost.ns * share for share in lost)
            found.append(Range(low, mid, high).scaled(step.model.products[index].calls))
    return total_range(found)
