"""Reduce an analysed rank to what a job's report needs of it, and join that of two ranks or more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from tcprobe.analysis.causes.facts import costliest, sums_of
from tcprobe.analysis.ranks.clocks import Arrivals, Clock, Moments, arrivals_of, compare_clocks, join_arrivals
from tcprobe.analysis.ranks.join import KEYS, Figure, Joined, figures_of, join, join_figures, of_one
from tcprobe.grouping import known_total
from tcprobe.schema.advice import Advice
from tcprobe.schema.columns import Row, Table, concatenate
from tcprobe.schema.profile import Note, Profile
from tcprobe.schema.tables import RANKS, TABLES
from tcprobe.schema.waits import Waiting

Subject: TypeAlias = tuple[Any, ...]
"""What an item of advice or a note is about, whichever rank says it."""
Said = TypeVar("Said", Advice, Note)


class Of(Struct, frozen=True):
    """Something that ranks say, as one of them says it."""

    says: Advice | Note
    rank: int | None  # the rank whose words these are
    ranks: int  # how many say so
    alike: bool = True  # whether all say it in these words


class Entered(Struct, frozen=True):
    """How one rank came to the moments that all share."""

    count: int  # moments
    sum_ns: int  # sum of the times at which it came to them, on the reference's clock
    duration_ns: int  # sum of their lengths


class Part(Struct, frozen=True):
    """What is kept of some ranks once their files are closed: its size hardly depends on how many they are."""

    first: Profile  # the first of them, without tables
    ranks: Table  # a row for each, as far as one rank tells
    devices: Table  # their GPUs, numbered through
    tables: dict[str, Joined] = field(default_factory=dict)
    figures: dict[str, Figure] = field(default_factory=dict)
    advice: dict[Subject, Of] = field(default_factory=dict)
    notes: dict[Subject, Of] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    waiting: Waiting | None = None  # sums over GPUs of each of its times; None where a rank does not know it
    gpus: int = 0  # over how many GPUs these are sums
    entered: tuple[Entered | None, ...] = ()  # of each rank
    arrivals: Arrivals | None = None  # of all of them


SAME: Final = ("profiler", "framework", "host", "precision", "policy", "xla", "gpu_used", "command")
"""Metadata that a job has where all its ranks have it."""


def part_of(profile: Profile, rank: int | None, moments: Moments | None, reference: Moments | None) -> Part:
    """Return what is kept of one rank.

    Args:
        profile: analysed.
        rank: its number.
        moments: those that it shares with others.
        reference: the same of the rank whose clock counts.
    """
    clock = compare_clocks(moments, reference) if moments is not None and reference is not None else None
    arrivals = arrivals_of(moments, clock) if moments is not None else None
    entered = None
    if moments is not None and arrivals is not None:
        lengths = (moments.end - moments.start)[: len(arrivals.last_ns)]
        entered = Entered(len(arrivals.last_ns), int(arrivals.last_ns.sum()), int(lengths.sum()))
    gpus = len(profile.active_gpus)
    return Part(
        replace(
            profile.with_metadata(notes=(), sources=(), run={}), tables={}, absent={}, advice=(), off=None, screen=None
        ),
        Table.from_rows(RANKS, [{**_row(profile), "rank": rank, **_of_clock(clock, moments)}]),
        _numbered(profile.require("devices"), 0),
        {name: of_one(profile.tables[name]) for name in KEYS if len(profile.require(name))},
        figures_of(profile),
        {_about(item): Of(item, rank, 1) for item in profile.advice},
        {(note.code, note.level): Of(note, rank, 1) for note in profile.metadata.notes},
        {name: why for name, why in profile.absent.items() if name in KEYS},
        _times(profile.waiting, gpus or 1) if profile.waiting is not None else None,
        gpus or 1,
        (entered,),
        arrivals,
    )


def _about(item: Advice) -> Subject:
    where = item.where
    return (item.code, item.kind, where.layer, where.op, where.pass_, item.sizes)


def _of_clock(clock: Clock | None, moments: Moments | None) -> Row:
    if clock is None or moments is None:
        return {}
    return {
        "clock_offset_ns": clock.offset_ns, "clock_residual_ns": clock.residual_ns,
        "collectives": clock.count if moments.kind != "steps" else None,
    }  # fmt: skip


def _row(profile: Profile) -> Row:
    """Return a rank's own figures; those of its window are means over its GPUs."""
    meta, waiting, gpus = profile.metadata, profile.waiting, len(profile.active_gpus) or 1
    devices = profile.require("devices")
    busy = devices.numbers("gpu_busy_pct")[devices.names("state").among("active")]
    spent, on_tc, unknown = (known_total(devices.numbers(c)) for c in ("sum_ns", "tc_ns", "unknown_ns"))
    first = next((at for at, row in enumerate(devices.rows()) if row["state"] == "active"), None)
    return {
        "state": "read", "host": meta.host, "source": meta.paths[0] if meta.paths else None,
        "gpus": len(profile.active_gpus) if profile.table("devices") is not None else None, "first_device": first,
        "step_ns": waiting.step_ns if waiting else profile.value("step_time_ns"),
        "step_length": waiting.length if waiting else None,
        "window_ns": known_total(devices.numbers("window_ns")[:1]) if len(devices) else meta.window.length_ns,
        "gpu_busy_pct": float(busy.mean()) if len(busy) and not np.isnan(busy).any() else None,
        "kernel_ns": spent, "tc_ns": on_tc, "unknown_ns": unknown, **_waits(profile, gpus),
    }  # fmt: skip


def _waits(profile: Profile, gpus: int) -> Row:
    """Return for what its GPUs waited: other ranks, and what took most of the rest."""
    waits = profile.table("waits")
    if waits is None:
        return {}
    for_ranks = waits.names("host_work").among("communicate")
    idle, rest = waits.numbers("idle_ns").astype(np.float64), waits.names("host_work").take(~for_ranks)
    calls = sums_of(waits.names("host_op").take(for_ranks).tolist(), idle[for_ranks])
    others = sums_of(rest.tolist(), idle[~for_ranks])
    of_all = set(profile.require("collectives").names("name").names)
    alone = profile.value("communication_exposed_ns") or 0.0
    most = costliest(others) if others else None
    return {
        "exposed_ns": (sum(calls.values()) + alone) / gpus,
        "exposed_op": costliest(calls) if calls else None,
        "between_two_ns": sum(ns for call, ns in calls.items() if call not in of_all) / gpus,
        "wait": most, "wait_ns": None if most is None else others[most] / gpus,
    }  # fmt: skip


def _numbered(devices: Table, after: int) -> Table:
    return devices.with_columns(device=np.arange(len(devices)) + after)


def _times(waiting: Waiting, by: float) -> Waiting:
    return Waiting(waiting.step_ns * by, waiting.length, waiting.busy_ns * by, waiting.idle_ns * by)


def joined(one: Part, other: Part) -> Part:
    """Return what is kept of some ranks and, behind them, of others."""
    after = len(one.devices)
    ranks = other.ranks.with_columns(first_device=other.ranks.numbers("first_device") + after)
    tables = {
        name: join(one.tables[name], other.tables[name])
        if name in one.tables and name in other.tables
        else one.tables.get(name) or other.tables[name]
        for name in KEYS
        if name in one.tables or name in other.tables
    }
    return Part(
        _first(one.first, other.first),
        concatenate(RANKS, [one.ranks, ranks]),
        concatenate(TABLES["devices"], [one.devices, _numbered(other.devices, after)]),
        tables,
        join_figures(one.figures, other.figures),
        _said(one.advice, other.advice),
        _said(one.notes, other.notes),
        {**other.absent, **one.absent},
        _both(one.waiting, other.waiting),
        one.gpus + other.gpus,
        (*one.entered, *other.entered),
        join_arrivals(one.arrivals, other.arrivals, len(one.ranks)),
    )


def _first(one: Profile, other: Profile) -> Profile:
    """Return the first profile, with the metadata alone that both have."""
    ours, theirs = one.metadata, other.metadata
    unlike: Mapping[str, Any] = {name: None for name in SAME if getattr(ours, name) != getattr(theirs, name)}
    unlike = {name: () if name == "command" else value for name, value in unlike.items()}
    partial, tuned = ours.partial or theirs.partial, [p.tuning for p in (one, other) if p.tuning is not None]
    worst = max(tuned, key=lambda tuning: tuning.share_pct, default=None)
    joined_traits = one.traits & other.traits
    return replace(
        one.with_metadata(**unlike, partial=partial),
        tuning=worst, start_up=one.start_up or other.start_up, traits=joined_traits,
    )  # fmt: skip


def _both(one: Waiting | None, other: Waiting | None) -> Waiting | None:
    if one is None or other is None or one.length != other.length:
        return None
    return Waiting(one.step_ns + other.step_ns, one.length, one.busy_ns + other.busy_ns, one.idle_ns + other.idle_ns)


def _said(one: Mapping[Subject, Of], other: Mapping[Subject, Of]) -> dict[Subject, Of]:
    """Return what both say; of advice the words of the rank where it saves more."""
    found = dict(one)
    for subject, of in other.items():
        held = found.get(subject)
        if held is None:
            found[subject] = of
            continue
        said = of if _weight(of.says) > _weight(held.says) else held
        alike = held.alike and of.alike and held.says == of.says
        found[subject] = replace(said, ranks=held.ranks + of.ranks, alike=alike)
    return found


def _weight(says: Advice | Note) -> float:
    if isinstance(says, Note):
        return 0.0
    return says.concern.share_pct if says.saves_ns is None else says.saves_ns


def tree(parts: Iterable[Any], both: Callable[[Any, Any], Any] = joined) -> Any:
    """Join parts as they come, two of equal size at a time: as many are held as a binary number has digits.

    Whoever joins in this shape gets the same result to the last digit.

    Args:
        parts: in the order of ranks.
        both: joins two.
    """
    held: list[tuple[int, Any]] = []
    for part in parts:
        size, whole = 1, part
        while held and held[-1][0] == size:
            size, whole = 2 * size, both(held.pop()[1], whole)
        held.append((size, whole))
    found = held.pop()[1] if held else None
    while held:
        found = both(held.pop()[1], found)
    return found
