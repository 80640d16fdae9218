"""Hold how often ops run by the graph against what the profile counted, and take its count where the graph has none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from tcprobe.analysis.iterations import counted
from tcprobe.analysis.ops.attribution import GraphIndex, OpName, attribute_ops
from tcprobe.analysis.phases import in_phase, session_steps
from tcprobe.grouping import count_by, distinct_rows
from tcprobe.schema.columns import IntArray, Row, Table
from tcprobe.schema.profile import Note, Profile

GRADIENTS: Final = ("dgrad", "wgrad")
JOINED: Final = ("several-hosts", "threads")  # notes of profiles that add up the calls of several processes or threads


class _Group(Struct, frozen=True):
    """Ops of the graph whose names in the profile cannot be told apart, with how often they ran together."""

    rows: tuple[int, ...]  # of `graph_ops`
    seen: int  # calls that the profile counted, over all its steps
    expected: float  # calls in as many steps by the graph, at least
    bounded: bool  # whether some of them may run more often than the graph says
    gradient: bool  # whether all of them belong to a backward pass, which only training runs


def with_counts(profile: Profile) -> Profile:
    """Return the profile with `calls_per_step` of its graph raised to what the profile counted.

    The profile drops events of small ops, so that fewer calls than computed prove nothing, and what it counted is a
    lower bound; unless ops whose number the graph leaves open, one of a gradient among them, ran equally often: what
    is dropped differs by op. More of a gradient mean that the graph counts too few. More of a forward pass may be a
    validation; then no other op of a forward pass takes its number from the profile.
    """
    graph, steps = profile.table("graph_ops"), _steps(profile)
    if graph is None or steps <= 0:
        return profile
    groups = list(_groups(list(graph.rows()), _seen(profile.require("host_ops"), graph), steps))
    calls, at_least = graph.values("calls_per_step"), graph.values("at_least")
    learned = 0
    notes: list[Note] = []
    alike = _alike(groups)
    for group in alike:
        calls[group.rows[0]], at_least[group.rows[0]] = group.seen / steps, False
    if alike:
        notes.append(_taken(len(alike), steps, exact=True))
    for group in (g for g in groups if g.seen > g.expected and (g.bounded or g.gradient) and g not in alike):
        if group.bounded and not _holds([g for g in groups if g.gradient == group.gradient]):
            continue
        for row in group.rows:
            at_least[row] = True
        if len(group.rows) == 1:
            calls[group.rows[0]] = group.seen / steps
            learned += group.bounded
        if not group.bounded:
            notes.append(_differs(graph, group, steps))
    if learned:
        notes.append(_taken(learned, steps, exact=False))
    changed = Table(graph.spec, {**graph.columns, "calls_per_step": calls, "at_least": at_least})
    return profile.with_tables(changed).with_notes(*notes)


def _steps(profile: Profile) -> int:
    """Return the steps that the profile's host ops are of; 0 where their calls are of no steps, or of several phases.

    These are the steps of the whole session, which the probe tells: marks may lack those that it only understood later,
    and steps in which the script's own session began.
    """
    joined = any(note.code in JOINED for note in profile.metadata.notes)
    if joined or not len(profile.require("host_ops")):
        return 0
    marked, session = profile.require("iterations"), session_steps(profile)
    held = marked.numbers("iteration") if session is None else np.array(session)
    if not in_phase(profile, held).all():
        return 0
    return int(marked.numbers("steps").sum()) if session is None else session[1] - session[0] + 1


def _seen(host_ops: Table, graph: Table) -> list[tuple[tuple[int, ...], int]]:
    """Return the rows of the graph that each op of the host may be, and the times that it ran."""
    columns = (host_ops.values(name) for name in ("op", "op_type", "calls"))
    names = [(OpName(str(op), str(op_type)), int(calls or 0)) for op, op_type, calls in zip(*columns, strict=True)]
    found = attribute_ops([name for name, _ in names], GraphIndex(graph))
    return [(where.rows, calls) for where, (_, calls) in zip(found, names, strict=True) if where.rows]


def _groups(graph: Sequence[Row], seen: Sequence[tuple[tuple[int, ...], int]], steps: int) -> Iterator[_Group]:
    """Yield groups of ops that share names, each op in one."""
    groups: dict[int, frozenset[int]] = {}
    for rows, _ in seen:
        together = frozenset(rows).union(*(groups.get(row, ()) for row in rows))
        groups.update(dict.fromkeys(together, together))
    counted: dict[frozenset[int], int] = {}
    for rows, calls in seen:
        key = groups[rows[0]]
        counted[key] = counted.get(key, 0) + calls
    for key, calls in counted.items():
        members = [graph[row] for row in key if graph[row]["executes"] != "no"]
        yield _Group(
            tuple(sorted(key)),
            calls,
            round(steps * sum(float(row["calls_per_step"] or 0) for row in members), 6),  # sums of shares of a step
            any(row["calls_per_step"] is None or row["at_least"] is True for row in members),
            all(row["pass"] in GRADIENTS for row in members),
        )


def _alike(groups: Sequence[_Group]) -> list[_Group]:
    """Return the ops whose number only the profile tells, and of which others, of a gradient too, ran as often."""
    open_ = [g for g in groups if g.bounded and len(g.rows) == 1 and g.seen >= g.expected]
    times = Counter(group.seen for group in open_)
    trained = {group.seen for group in open_ if group.gradient}
    return [group for group in open_ if times[group.seen] > 1 and group.seen in trained]


def _holds(groups: Sequence[_Group]) -> bool:
    """Return whether ops whose number the graph tells are among these, and none of them ran more often."""
    told = [group for group in groups if not group.bounded]
    return bool(told) and all(group.seen <= group.expected for group in told)


def _differs(graph: Table, group: _Group, steps: int) -> Note:
    op = graph.names("op")[group.rows[0]]
    others = f" and {len(group.rows) - 1} more of its names" if len(group.rows) > 1 else ""
    return Note(
        "executions-differ",
        f"{op}{others} ran {group.seen} times in {steps} steps, by the graph {group.expected:.0f} times: "
        "FLOPs made of it are lower bounds",
    )


def _taken(count: int, steps: int, exact: bool) -> Note:
    what = "1 matrix multiplication runs" if count == 1 else f"{count} matrix multiplications run"
    return Note(
        "executions-counted",
        f"how often {what} in a step, the graph does not tell: it is {'' if exact else 'at least '}the mean of the "
        f"{steps} profiled steps ({'the profile counts them alike' if exact else 'a profile may miss calls'})",
        level="note",
    )


def calls_per_step(profile: Profile, gpus: Mapping[int, int]) -> dict[int, float | None]:
    """Return the calls in a step of each op that is named by a range; None where no steps are known.

    A call is a range in which counted kernels were launched; one whose launches were not recorded is none. Ops that
    the source names by other means are left out.

    Args:
        profile: with its window, `launches`, `op_details` and `ranges`.
        gpus: row of `op_details` -> number of GPUs that each run it, 1 where there is none: a step is one GPU's.
    """
    details = profile.require("op_details")
    ranges = profile.require("ranges")
    ranges = ranges.take(ranges.names("kind").among("op"))
    if not len(ranges) or not len(details):
        return {}
    names, steps = ranges.names("name"), profile.counted_steps
    known = {name: number for number, name in enumerate(names.names)}
    named = np.array([_range_of(op, known) for op in details.names("op").tolist()], np.int64)
    calls = _calls(profile, ranges, named).tolist()
    rows = np.flatnonzero(named >= 0).tolist()
    return {row: calls[row] / steps / gpus.get(row, 1) if steps else None for row in rows if calls[row]}


def _range_of(op: str | None, known: Mapping[str, int]) -> int:
    """Return the number of the range's name that an op bears, below the path of its layers; -1 where there is none."""
    rest = op or ""
    while rest not in known and "/" in rest:
        rest = rest.partition("/")[2]
    return known.get(rest, -1)


def _calls(profile: Profile, ranges: Table, named: IntArray) -> IntArray:
    """Return the number of ranges of each op that launched counted kernels: of its name, the last begun before."""
    launches = profile.require("launches")
    called, op = launches.numbers("launch_ns"), launches.numbers("op_id")
    inside = counted(profile.metadata.window, launches.numbers("iteration"))
    mine = np.flatnonzero(inside & (op >= 0) & (op < len(named)) & ~np.isnan(called))
    mine = mine[named[op[mine]] >= 0]
    times = np.concatenate([ranges.numbers("start_ns"), called[mine]])
    threads = np.concatenate([ranges.numbers("thread"), launches.numbers("thread")[mine]])
    names = np.concatenate([ranges.names("name").ids, named[op[mine]]])
    _, alike = distinct_rows(np.nan_to_num(threads, nan=-1.0).astype(np.int64), names)
    order = np.lexsort((np.arange(len(times)) >= len(ranges), times, alike))  # a range before what it launches
    begun = np.maximum.accumulate(np.where(order < len(ranges), np.arange(len(order)), -1))
    last = np.full(len(times), -1)
    last[order] = np.where(begun < 0, -1, order[begun])
    found = last[len(ranges) :]
    held = (found >= 0) & (alike[found] == alike[len(ranges) :])
    (ops, _), _ = distinct_rows(op[mine][held], found[held])
    return count_by(ops, len(named))
