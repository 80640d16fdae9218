"""Make one profile of a job's ranks: their joined tables, a row for each, who holds the others up, what is missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from tcprobe.analysis.causes.advice import advice_rows, related
from tcprobe.analysis.ranks.join import shares_of, summary_of
from tcprobe.analysis.ranks.part import Of, Part
from tcprobe.analysis.screen.flow import with_screen
from tcprobe.formatting import many
from tcprobe.schema.advice import Advice
from tcprobe.schema.columns import FloatArray, Row, Table
from tcprobe.schema.profile import Note, Profile
from tcprobe.schema.tables import ADVICE, DERIVED, RANKS
from tcprobe.schema.waits import Waiting

EACH: Final = "it is of one rank alone: report that by itself"
LATE_PCT: Final = 1.0  # of the window: what others wait longer, from which on a rank holds them up
LITTLE: Final = 0.5  # of what the others wait: a rank that waits longer is held up itself
SLOW: Final = 1.1  # times the others' own time in a step, where nothing tells who waits for whom
MOST_NAMED: Final = 8


class Unread(Struct, frozen=True):
    """A file of the job of which no figure is known."""

    source: str
    rank: int | None  # where its name or content tells
    why: str
    remedy: str | None = None


def whole(part: Part, path: str, unread: Sequence[Unread] = (), *, some: bool = False) -> Profile:
    """Return the profile of a job.

    Args:
        part: of all ranks that were read.
        path: the folder that the user named.
        unread: files of ranks that could not be read.
        some: whether others were not to be profiled, so that none of them is missing.
    """
    ranks = _with_unread(_judged(_compared(part)), unread, some)
    kernel_ns = float(np.nansum(ranks.numbers("kernel_ns")))
    tables = [shares_of(one.table, kernel_ns) for one in part.tables.values()]
    advice = related(_ranked(part))
    rows = advice_rows(advice)
    notes = [*_job_notes(part, ranks, unread), *_rank_notes(part)]
    absent = {spec.name: EACH for spec in DERIVED} | part.absent
    profile = replace(
        part.first.with_metadata(paths=(path,), rank=None, run={}, notes=tuple(notes)),
        waiting=_mean(part),
        advice=advice,
    ).with_tables(ranks, *([part.devices] if len(part.devices) else []), *tables, summary_of(part.figures),
                  Table.from_rows(ADVICE, rows))  # fmt: skip
    return with_screen(profile.with_absent(**absent))


def _mean(part: Part) -> Waiting | None:
    if (sums := part.waiting) is None:
        return None
    return Waiting(sums.step_ns / part.gpus, sums.length, sums.busy_ns / part.gpus, sums.idle_ns / part.gpus)


def _ranked(part: Part) -> list[Advice]:
    """Return what to do, what saves most first, as the ranks themselves order it where none saves anything."""
    items = [of.says for of in part.advice.values() if isinstance(of.says, Advice)]
    return sorted(items, key=lambda item: -(item.saves_ns or 0.0))


def _compared(part: Part) -> Table:
    """Return the rows of ranks with how long each waited for the last one, and how often it was that."""
    arrivals = part.arrivals
    if arrivals is None or len(part.ranks) < 2:
        return part.ranks
    until = np.append(0, np.cumsum(arrivals.last_ns))
    last = np.bincount(arrivals.who, minlength=len(part.ranks))
    found: dict[str, Any] = {name: np.full(len(part.ranks), np.nan) for name in ("waited_ns", "collective_ns", "last")}
    for at, entered in enumerate(part.entered):
        if entered is not None:
            waited = int(until[entered.count]) - entered.sum_ns
            found["collective_ns"][at], found["last"][at] = entered.duration_ns, last[at]
            found["waited_ns"][at] = min(max(waited, 0), entered.duration_ns)  # what clocks are off cannot make more
    return part.ranks.with_columns(**found)


def _judged(ranks: Table) -> Table:
    """Say which ranks hold the others up, and by what."""
    window, waited = ranks.numbers("window_ns"), ranks.numbers("waited_ns")
    if np.count_nonzero(~np.isnan(waited)) > 1:
        others = _median_of_others(waited)
        straggles = (others - waited >= LATE_PCT / 100.0 * window) & (waited <= LITTLE * others)
        known = ~np.isnan(waited)
    else:
        own = ranks.numbers("step_ns") * (1.0 - np.nan_to_num(ranks.numbers("exposed_ns") / window))
        others = _median_of_others(own)
        straggles, known = own >= SLOW * others, ~np.isnan(own) & ~np.isnan(others)
    held = [_held(ranks, at, straggles) if flag else {} for at, flag in enumerate(straggles.tolist())]
    return ranks.with_columns(
        straggler=np.where(known, straggles.astype(float), np.nan),
        **{name: [one.get(name) for one in held] for name in ("held_by", "held_ns")},
    )


def _median_of_others(values: FloatArray) -> FloatArray:
    """Return for each value the median of all others that are known; NaN where there are none."""
    found = np.full(len(values), np.nan)
    ordered = np.sort(values[~np.isnan(values)])
    for at in np.flatnonzero(~np.isnan(values)).tolist() if len(ordered) > 1 else ():
        place = int(np.searchsorted(ordered, values[at]))
        middle = [at + (at >= place) for at in ((len(ordered) - 2) // 2, (len(ordered) - 1) // 2)]
        found[at] = ordered[middle].mean()
    return found


def _held(ranks: Table, at: int, straggles: Any) -> Row:
    """Return what takes a rank longer than the median of those that hold nobody up; nothing where that is unknown."""
    kernels, between = ranks.numbers("kernel_ns") / ranks.numbers("gpus"), ranks.numbers("between_two_ns")
    work = ranks.names("wait")[at]
    alike = np.where(ranks.names("wait").among(work), ranks.numbers("wait_ns"), 0.0)
    longer: dict[str, float] = {}
    for name, spent in (("kernels", kernels), ("between two", between), (work, alike)):
        usual = spent[~straggles & ~np.isnan(spent)]
        if name is not None and len(usual) and not np.isnan(spent[at]):
            longer[name] = float(spent[at] - np.median(usual))
    most = max(longer, key=lambda name: longer[name], default=None)
    return {} if most is None or longer[most] <= 0 else {"held_by": most, "held_ns": longer[most]}


def _with_unread(ranks: Table, unread: Sequence[Unread], some: bool) -> Table:
    """Add the ranks that cannot be read and those below the highest of which there is no file, in their order."""
    rows = list(ranks.rows())
    rows += [{"rank": one.rank, "state": "unreadable", "source": one.source, "why": one.why} for one in unread]
    there = {int(row["rank"]) for row in rows if row["rank"] is not None}
    rows += [
        {"rank": rank, "state": "missing"} for rank in range(0 if some else max(there, default=0)) if rank not in there
    ]
    return Table.from_rows(RANKS, sorted(rows, key=lambda row: (row["rank"] is None, row["rank"] or 0)))


def _job_notes(part: Part, ranks: Table, unread: Sequence[Unread]) -> Iterator[Note]:
    """Yield what limits the figures of a job: ranks that are not there, clocks that do not compare."""
    for one in unread:
        yield Note("rank-unreadable", f"{one.source} is left out: {one.why}", one.remedy)
    missing = [row["rank"] for row in ranks.rows() if row["state"] == "missing"]
    if missing:
        message = f"no file of rank {numbers(missing)}: sums are of the ranks that are there"
        yield Note("ranks-missing", message, "whether ranks above the highest ran is not told")
    yield from _clock_notes(part)
    of = many(len(part.ranks), "rank")
    message = f"sums are over all GPUs of {of}; a step, and what it divides into, is a mean of them"
    yield Note("ranks-joined", f"{message}; what to do is of the rank where it saves most", level="note")


def _clock_notes(part: Part) -> Iterator[Note]:
    residual = part.ranks.numbers("clock_residual_ns")
    if (known := residual[~np.isnan(residual)]).size < 2:
        if len(part.ranks) > 1:
            message = "the clocks of the ranks cannot be compared: they share no collectives and no steps"
            yield Note("clocks-apart", message, "who waited for whom is not known", "note")
        return
    by = "collectives" if part.arrivals is not None else "steps"
    message = f"clocks of {known.size} ranks are compared by {by}; the rest is {known.max() / 1e3:.3g} us or less"
    yield Note("clocks-compared", message, level="note")
    if left := [row["rank"] for row in part.ranks.rows() if row["clock_residual_ns"] is None]:
        yield Note("clocks-apart", f"the clock of rank {numbers(left)} cannot be compared with the others'")


def _rank_notes(part: Part) -> Iterator[Note]:
    """Yield what ranks note, once each, in the words of the first that says so."""
    for of in part.notes.values():
        if isinstance(of.says, Note):
            yield replace(of.says, message=f"{_whose(of, len(part.ranks))}{of.says.message}")


def _whose(of: Of, total: int) -> str:
    """Return which ranks say something; nothing where all say it in the same words."""
    if of.alike and of.ranks == total:
        return ""
    others = of.ranks - 1
    own = "one rank" if of.rank is None else f"rank {of.rank}"
    return f"{own}{f', and likewise {others} more' if others else ''}: "


def numbers(ranks: Sequence[Any]) -> str:
    """Return numbers of ranks in words: runs as 3 to 7, the first of many runs alone."""
    runs: list[list[int]] = []
    for rank in sorted(int(one) for one in ranks if one is not None):
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    words = [str(low) if low == high else f"{low}{', ' if high == low + 1 else ' to '}{high}" for low, high in runs]
    more = f" and more, {sum(high - low + 1 for low, high in runs)} in all" if len(words) > MOST_NAMED else ""
    unknown = ["of unknown number"] if any(one is None for one in ranks) else []
    return ", ".join([*words[:MOST_NAMED], *unknown]) + more
