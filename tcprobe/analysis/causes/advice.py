"""Choose what to do first: gather what the rules on runs read, and order what they say by what it saves of a step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from tcprobe.analysis.subject.build import subject_of
from tcprobe.rules.run.rules import RUN_NAMES, RUN_RULES
from tcprobe.rules.run.savings import SMALLEST_PCT
from tcprobe.schema.advice import Advice, AdviceKind
from tcprobe.schema.columns import Row, Table
from tcprobe.schema.profile import Profile
from tcprobe.schema.tables import ADVICE

FIRST: Final[tuple[AdviceKind, ...]] = ("profile_later", "key_node", "skip_warm_up")
"""They come before all, in this order: nothing else is about a usual step until that is done."""
LAST: Final[AdviceKind] = "profile_steps"
"""It comes after all: it is a doubt about the figures, and no finding."""


def advise(profile: Profile) -> Profile:
    """Add what to do, ordered by what it saves of a step, without what saves less than 1 % of it.

    Where no step's length is known, by the share of the run that it concerns; of sizes the one whose change saves most
    comes first, where that is predicted. What keeps the figures from being of a usual step comes before all (`FIRST`).

    Args:
        profile: with all tables, and what keeps ops off the Tensor Cores.
    """
    subject = subject_of(profile)
    found = [item for rule in RUN_RULES for item in rule.check(subject)]
    ranked = related(sorted(_by_step(found) if subject.waiting else _by_share(found), key=_turn))
    table = Table.from_rows(ADVICE, [_row(rank, item) for rank, item in enumerate(ranked, 1)])
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


def _by_step(found: list[Advice]) -> Iterator[Advice]:
    """Yield the items that may save 1 % of a step, largest saving first; those of unknown saving last."""
    ranked = sorted(found, key=lambda item: (-(item.saves_ns or 0.0), -item.concern.share_pct, item.code))
    yield from (item for item in ranked if _most_pct(item) >= SMALLEST_PCT or item.kind in FIRST)


def _most_pct(item: Advice) -> float:
    """Return the most that an item may save of a step, 0-100; the share that it concerns where that is unknown."""
    most = item.concern.at_most_ns if item.saving is None else item.saving.ns.high
    if most is None or not item.concern.step_ns:
        return item.concern.share_pct
    return 100.0 * most / item.concern.step_ns


def _by_share(found: list[Advice]) -> Iterator[Advice]:
    """Yield the items that concern 1 % of the run, largest share first, predicted savings sorted among themselves."""
    ranked = sorted((i for i in found if i.concern.share_pct >= SMALLEST_PCT), key=lambda i: -i.concern.share_pct)
    saving = iter(sorted((i for i in ranked if i.saving), key=lambda i: -(i.saves_ns or 0.0)))
    yield from (next(saving) if item.saving else item for item in ranked)


def _row(rank: int, item: Advice) -> Row:
    """Return an item as a row of `advice`; its text is the report's."""
    return {"rank": rank, "code": item.code, "name": RUN_NAMES[item.code], "kind": item.kind, **item.figures()}
