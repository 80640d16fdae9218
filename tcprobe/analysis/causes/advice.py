"""List what keeps ops off the Tensor Cores, and choose what to do first: what saves most of a step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from tcprobe.analysis.causes.facts import facts_of
from tcprobe.rules.registry import RUN_RULES, rule_of
from tcprobe.rules.run.base import Run
from tcprobe.rules.run.savings import SMALLEST_PCT
from tcprobe.schema.advice import Advice, AdviceKind
from tcprobe.schema.columns import FloatArray, Row, Table
from tcprobe.schema.kinds import NOT_BLOCKED
from tcprobe.schema.profile import OffTensorCores, Profile
from tcprobe.schema.tables import ADVICE
from tcprobe.schema.whatif import bounded_rows

FIRST: Final[tuple[AdviceKind, ...]] = (
    "finite_loss",
    "profile_later",
    "key_node",
    "skip_warm_up",
    "profile_usual_steps",
)
"""They come before all, in this order: nothing else is about training, or a usual step, until that is done."""
LAST: Final[AdviceKind] = "profile_steps"
"""It comes after all: it is a doubt about the figures, and no finding."""


def off_tensor_cores(profile: Profile) -> OffTensorCores | None:
    """Return the ops that could use Tensor Cores and do not, with what each costs; None where there is none."""
    ops = profile.require("ops")
    total = _sum(profile.require("kernels").numbers("sum_ns")) or _sum(ops.numbers("sum_ns"))
    if total > 0:
        off = ops.numbers("sum_ns") - np.nan_to_num(ops.numbers("tc_ns")) - np.nan_to_num(ops.numbers("unknown_ns"))
        capable = ops.names("tc_capable").among("yes")
        return _weighed(ops, off, total, capable & (np.nan_to_num(off) > 0), measured=True)
    gemms = profile.require("gemms")
    runs = ~gemms.names("executes").among("no")
    flops = gemms.numbers("flops") * gemms.numbers("calls_per_step")
    cost = _weighed(gemms, flops, _sum(flops[runs]), runs & ~np.isnan(gemms.numbers("flops")), measured=False)
    return cost and replace(cost, bounded=bool(np.any(runs & bounded_rows(gemms))))


def _weighed(
    table: Table, weight: FloatArray, total: float, mask: NDArray[np.bool_], measured: bool
) -> OffTensorCores | None:
    mask = mask & ~table.names("tc_blocker_kind").among(*NOT_BLOCKED)
    if not mask.any():
        return None
    weight, kept = np.nan_to_num(weight[mask]), table.take(mask)
    order = np.argsort(-weight, kind="stable")
    return OffTensorCores(kept.take(order), weight[order], total, measured)


def _sum(values: FloatArray) -> float:
    return float(np.nansum(values))


def advise(profile: Profile) -> Profile:
    """Add what to do, ordered by what it saves of a step, without what saves less than 1 % of it.

    Where no step's length is known, by the share of the run that it concerns; of sizes the one whose change saves most
    comes first, where that is predicted. What keeps the figures from being of a usual step comes before all (`FIRST`).

    Args:
        profile: with all tables, and what keeps ops off the Tensor Cores.
    """
    run = Run(profile, facts_of(profile))
    items = [item for rule in RUN_RULES for item in rule.check(run)]
    return with_items(profile, items)


def with_items(profile: Profile, items: Iterable[Advice]) -> Profile:
    """Return the profile with these items as its advice, in their order."""
    ranked = related(sorted(_by_step(items) if profile.waiting else _by_share(items), key=_turn))
    table = Table.from_rows(ADVICE, advice_rows(ranked))
    return replace(profile, advice=ranked).with_tables(table)


def related(ranked: list[Advice]) -> tuple[Advice, ...]:
    """Return the items, each with the codes of those above it that draw on some of the same time."""
    return tuple(
        replace(
            item, beside=tuple(dict.fromkeys(above.code for above in ranked[:at] if above.draws_on & item.draws_on))
        )
        for at, item in enumerate(ranked)
    )


def _turn(item: Advice) -> int:
    """Return whether an item comes before those that are ordered by what they save (below 0), among or after them."""
    if item.kind in FIRST:
        return FIRST.index(item.kind) - len(FIRST)
    return int(item.kind == LAST)


def _by_step(items: Iterable[Advice]) -> Iterator[Advice]:
    """Yield the items that likely save 1 % of a step, or at most that; largest saving first, unknown ones last."""
    ranked = sorted(items, key=lambda item: (-(item.saves_ns or 0.0), -item.concern.share_pct, item.code))
    yield from (item for item in ranked if _saved_pct(item) >= SMALLEST_PCT or item.kind in FIRST)


def _saved_pct(item: Advice) -> float:
    """Return what an item saves of a step, 0-100: likely, else at most, else the share that it concerns."""
    if item.saves_ns is None or not item.concern.step_ns:
        return item.concern.share_pct
    return 100.0 * item.saves_ns / item.concern.step_ns


def _by_share(items: Iterable[Advice]) -> Iterator[Advice]:
    """Yield the items that concern 1 % of the run, largest share first, predicted savings sorted among themselves."""
    ranked = sorted((i for i in items if i.concern.share_pct >= SMALLEST_PCT), key=lambda i: -i.concern.share_pct)
    saving = iter(sorted((i for i in ranked if i.saving), key=lambda i: -(i.saves_ns or 0.0)))
    yield from (next(saving) if item.saving else item for item in ranked)


def advice_rows(items: Iterable[Advice]) -> list[Row]:
    """Return items as rows of `advice`, the first to do first; their text is the report's."""
    return [
        {"rank": rank, "code": item.code, "name": rule_of(item.code).name, "kind": item.kind, **item.figures()}
        for rank, item in enumerate(items, 1)
    ]
