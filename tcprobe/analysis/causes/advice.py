"""Choose what to do first: gather what the rules on runs read, and order what they say by what it saves of a step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from tcprobe.analysis.context import identified
from tcprobe.analysis.summary.waiting import busiest_gpu, kernel_steps
from tcprobe.analysis.waits.gaps import idle_of, short_of
from tcprobe.hardware import Gpu
from tcprobe.rules.registry import NAMES, RUN_RULES
from tcprobe.rules.run.base import OffOp, RunSubject
from tcprobe.rules.run.savings import SMALLEST_PCT
from tcprobe.rules.run.words import framework_of
from tcprobe.schema.advice import Advice
from tcprobe.schema.columns import Row, Table
from tcprobe.schema.kinds import Blocker
from tcprobe.schema.profile import OffTensorCores, Profile
from tcprobe.schema.sizes import worst_first
from tcprobe.schema.tables import ADVICE

HLO_TYPES: Final = frozenset({"dot", "convolution", "ragged-dot", "scaled-dot", "__cublas", "__cudnn"})


def advise(profile: Profile) -> Profile:
    """Add what to do, ordered by what it saves of a step, without what saves less than 1 % of it.

    Where no step's length is known, by the share of the run that it concerns; of sizes the one whose change saves most
    comes first, where that is predicted. Autotuning comes before all, for nothing else is then about a usual step.

    Args:
        profile: with all tables, and what keeps ops off the Tensor Cores.
    """
    subject = _subject(profile)
    found = [item for rule in RUN_RULES for item in rule.check(subject)]
    ranked = tuple(sorted(_by_step(found) if subject.waiting else _by_share(found), key=_after_tuning))
    table = Table.from_rows(ADVICE, [_row(rank, item) for rank, item in enumerate(ranked, 1)])
    return replace(profile, advice=ranked).with_tables(table)


def _after_tuning(item: Advice) -> bool:
    return item.kind != "profile_later"


def _by_step(found: list[Advice]) -> Iterator[Advice]:
    """Yield the items that may save 1 % of a step, largest saving first; those of unknown saving last."""
    ranked = sorted(found, key=lambda item: (-(item.saves_ns or 0.0), -item.concern.share_pct, item.code))
    yield from (item for item in ranked if _most_pct(item) >= SMALLEST_PCT or item.kind == "profile_later")


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


def _subject(profile: Profile) -> RunSubject:
    """Return what the rules read of a profile."""
    off, waiting = profile.off, profile.waiting
    kernel_ns, unnamed_ns = _unnamed(profile)
    gpus, busiest = busiest_gpu(profile)
    step = _figure(profile, "step_time_ns", "value")
    return RunSubject(
        off=tuple(_off(off)),
        total=off.total if off else 0.0,
        measured=bool(off and off.measured),
        bounded=bool(off and off.bounded),
        unnamed_ns=unnamed_ns,
        kernel_ns=kernel_ns,
        sizes=tuple(worst_first(profile.require("bad_sizes")).rows()),
        waiting=waiting,
        gaps=tuple(profile.require("gaps").rows()),
        idle_ns=idle_of(profile),
        short_ns=short_of(profile),
        tuning=profile.tuning,
        gpu=_gpu(profile),
        gpus=gpus,
        busiest=busiest,
        steps=kernel_steps(profile),
        step_ns=waiting.step_ns if waiting else step,
        framework=framework_of(profile.metadata.framework),
        compiled=_compiled(profile),
    )


def _off(cost: OffTensorCores | None) -> Iterator[OffOp]:
    for row, weight in zip(cost.table.rows(), cost.weight.tolist(), strict=True) if cost else ():
        if (blocker := Blocker.of(row)) is not None:
            yield OffOp(row, blocker, weight)


def _unnamed(profile: Profile) -> tuple[float, float]:
    """Return the window's kernel time, and what of it ran off the Tensor Cores in ops that the source does not name."""
    whole = _figure(profile, "kernel_time_ns", "value") or 0.0
    most = _figure(profile, "tc_kernel_time_pct", "high")
    most = _figure(profile, "tc_kernel_time_pct", "value") if most is None else most
    if most is None or len(profile.require("ops")):
        return whole, 0.0
    return whole, whole * (1.0 - most / 100.0)


def _figure(profile: Profile, metric: str, column: str) -> float | None:
    row = profile.figure(metric)
    found = None if row is None else row[column]
    return None if found is None else float(found)


def _gpu(profile: Profile) -> Gpu | None:
    active = [row for row in profile.require("devices").rows() if row["state"] == "active"]
    models = {gpu.id: gpu for row in active if (gpu := identified(row).gpu)}
    return next(iter(models.values())) if len(models) == 1 else None


def _compiled(profile: Profile) -> bool:
    """Return whether XLA compiled the step: the run says so, or ops of its graph are HLO instructions."""
    types = {str(name).split("$")[0] for name in profile.require("graph_ops").names("op_type").names}
    return profile.metadata.xla is True or bool(types & HLO_TYPES)


def _row(rank: int, item: Advice) -> Row:
    """Return an item as a row of `advice`; its text is the report's."""
    return {"rank": rank, "code": item.code, "name": NAMES[item.code], "kind": item.kind, **item.figures()}
