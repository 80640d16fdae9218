"""Judge from counted gradients (`--numerics`) whether float16 needs a scaled loss."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from tcprobe.schema.columns import Table
from tcprobe.schema.profile import GradientLoss, LossScaleNeed, NeedKind, Profile

GONE_PCT: Final = 1.0  # of a layer's values, lost at a scale: from here on that is too much
COARSE_PCT: Final = 10.0  # likewise, subnormal, which costs digits
KEPT_PCT: Final = 0.1  # of any layer's, lost at a scale that does
GONE: Final = -25  # of what is up to 2 to this float16 makes 0
NORMAL: Final = (-15, -13)  # its normal numbers begin at 2**-14, between two of the exponents
LARGEST: Final = 15  # all up to 2 to this is finite
SCALES: Final = tuple(range(0, 25, 2))
"""Powers of 2 that are tried. Source of the limits: IEEE 754-2008, binary16."""


class _Layer(Struct, frozen=True):
    """What was counted of the weights of a layer; but for zeros and infinities, shares are of its other values."""

    name: str
    values: float  # looked at
    zeros: float
    not_finite: float
    gone: float  # at the scale used, as the next two
    subnormal: float
    infinite: float
    larger: dict[int, float]  # values larger than 2 to each of these, without a scale

    def share(self, count: float) -> float:
        """Return the share of the finite values other than 0; 0 where there are none."""
        alive = self.values - self.zeros - self.not_finite
        return 100.0 * count / alive if alive else 0.0

    def gone_at(self, scale: int) -> float:
        """Return the share that is 0 in float16 at 2**scale."""
        return self.share(self.values - self.zeros - self.not_finite - self.larger[GONE - scale])

    def coarse_at(self, scale: int, normal: int) -> float:
        """Return the share that is subnormal there if normal numbers begin at 2**normal."""
        return self.share(self.larger[GONE - scale] - self.larger[normal - scale])


def loss_scale_need(profile: Profile) -> LossScaleNeed | None:
    """Return whether float16 needs a scaled loss; None where no gradient was counted.

    Of a run in float16 what it lost is among its zeros: what is lost at scale 1 is a lower bound then.
    """
    table, policy = profile.require("gradients"), profile.metadata.policy
    if not len(table):
        return None
    layers = sorted(_layers(table), key=lambda one: one.name)
    half = profile.metadata.computes_in in ("mixed_float16", "float16")
    dynamic = policy is not None and any(one.kind == "dynamic" for one in policy.loss_scales)
    scale = float(np.mean(table.numbers("scale")))
    kind, what, layer, pct = _judged(layers, scale, half, half and dynamic)
    better = None if half else _better(layers)
    return LossScaleNeed(
        kind,
        what,
        layer,
        pct,
        scale=scale,
        half=half,
        gone_pct=max(100.0 * one.zeros / one.values if half else one.share(one.gone) for one in layers),
        subnormal_pct=max(one.share(one.subnormal) for one in layers),
        better=None if better is None else 2.0**better,
        better_gone_pct=None if better is None else max(one.gone_at(better) for one in layers),
        better_subnormal_pct=None if better is None else max(one.coarse_at(better, NORMAL[1]) for one in layers),
        updates=int(table.numbers("updates").max()),
        looked_pct=100.0 * float(table.numbers("values").sum() / table.numbers("size").sum()),
    )


def _judged(
    layers: Sequence[_Layer], scale: float, half: bool, probing: bool
) -> tuple[NeedKind, GradientLoss, str, float]:
    """Return the answer, what decides it, the layer that has most of that, and its share.

    Args:
        layers: those that were counted, at least one.
        scale: of the loss.
        half: whether they computed in float16.
        probing: whether infinities only mean that a dynamic scale was found out.
    """

    def most(share: Callable[[_Layer], float]) -> tuple[str, float]:
        worst = max(layers, key=share)
        return worst.name, share(worst)

    infinite = most(lambda one: 100.0 * (one.infinite + one.not_finite) / one.values)
    if infinite[1] and not probing:
        return "overflows", "infinite", *infinite
    if half and scale == 1.0:
        return "unseen", "zero", *most(lambda one: 100.0 * one.zeros / one.values)
    lost, coarse = most(lambda one: one.share(one.gone)), most(lambda one: one.share(one.subnormal))
    if lost[1] >= GONE_PCT:
        return "lost", "gone", *lost
    if coarse[1] >= COARSE_PCT:
        return "coarse", "subnormal", *coarse
    without, below = most(lambda one: one.gone_at(0)), most(lambda one: one.coarse_at(0, NORMAL[0]))
    if scale != 1.0 and without[1] >= GONE_PCT:
        return "holds", "gone", *without
    if scale != 1.0 and below[1] >= COARSE_PCT:
        return "holds", "subnormal", *below
    return "no_need", "gone", *without


def _layers(table: Table) -> Iterator[_Layer]:
    names = [str(layer or weight) for layer, weight in zip(*map(table.values, ("layer", "weight")), strict=True)]
    counts = {c: table.numbers(c) for c in ("values", "zeros", "not_finite", "gone", "subnormal", "infinite")}
    larger = [{int(e): float(n) for e, n in json.loads(str(text)).items()} for text in table.values("larger")]
    for name in dict.fromkeys(names):
        rows = [row for row, other in enumerate(names) if other == name]
        sums = {column: float(numbers[rows].sum()) for column, numbers in counts.items()}
        yield _Layer(name, **sums, larger={e: sum(larger[row][e] for row in rows) for e in larger[rows[0]]})


def _better(layers: Sequence[_Layer]) -> int | None:
    """Return the exponent of the least scale that loses next to nothing, else the least; None if all overflow."""
    fits = [e for e in SCALES if not any(one.larger[LARGEST - e] or one.not_finite for one in layers)]
    lost = {
        e: (max(one.gone_at(e) for one in layers), max(one.coarse_at(e, NORMAL[1]) for one in layers)) for e in fits
    }
    kept = [e for e in fits if lost[e][0] <= KEPT_PCT and lost[e][1] < COARSE_PCT]
    return kept[0] if kept else min(fits, key=lambda e: (lost[e], e), default=None)
