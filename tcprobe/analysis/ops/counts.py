"""Hold how often ops run by the graph against what the profile counted, and take its count where the graph has none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tcprobe.analysis.ops.attribution import GraphIndex, OpName, attribute_ops
from tcprobe.analysis.phases import in_phase, session_steps
from tcprobe.schema.columns import Row, Table
from tcprobe.schema.profile import Note, Profile

GRADIENTS: Final = ("dgrad", "wgrad")
JOINED: Final = "several-hosts"  # note of a profile in which the calls of several processes are added up


@dataclass(frozen=True, slots=True)
class _Group:
    """Ops of the graph whose names in the profile cannot be told apart, with how often they ran together.

    Attributes:
        rows: of `graph_ops`.
        seen: calls that the profile counted, over all its steps.
        expected: calls in as many steps by the graph, at least.
        bounded: whether some of them may run more often than the graph says.
        gradient: whether all of them belong to a backward pass, which only training runs.
    """

    rows: tuple[int, ...]
    seen: int
    expected: float
    bounded: bool
    gradient: bool


def with_counts(profile: Profile) -> Profile:
    """Return the profile with `calls_per_step` of its graph raised to what the profile counted.

    The profile drops events of small ops, so that fewer calls than computed prove nothing, and what it counted is a
    lower bound. More of a gradient mean that the graph counts too few. More of a forward pass may be a validation;
    then no other op of a forward pass takes its number from the profile.
    """
    graph, steps = profile.table("graph_ops"), _steps(profile)
    if graph is None or steps <= 0:
        return profile
    groups = list(_groups(list(graph.rows()), _seen(profile.require("host_ops"), graph), steps))
    calls, at_least = graph.values("calls_per_step"), graph.values("at_least")
    learned = 0
    notes: list[Note] = []
    for group in (g for g in groups if g.seen > g.expected and (g.bounded or g.gradient)):
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
        notes.append(_taken(learned, steps))
    changed = Table(graph.spec, {**graph.columns, "calls_per_step": calls, "at_least": at_least})
    return profile.with_tables(changed).with_notes(*notes)


def _steps(profile: Profile) -> int:
    """Return the steps that the profile's host ops are of; 0 where their calls are of no steps, or of several phases.

    These are the steps of the whole session, which the probe tells: marks may lack those that it only understood later,
    and steps in which the script's own session began.
    """
    joined = any(note.code == JOINED for note in profile.metadata.notes)
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
            steps * sum(float(row["calls_per_step"] or 0) for row in members),
            any(row["calls_per_step"] is None or row["at_least"] is True for row in members),
            all(row["pass"] in GRADIENTS for row in members),
        )


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


def _taken(count: int, steps: int) -> Note:
    what = "1 matrix multiplication runs" if count == 1 else f"{count} matrix multiplications run"
    return Note(
        "executions-counted",
        f"how often {what} in a step, the graph does not tell: it is at least the mean of the {steps} profiled steps "
        "(a profile may miss calls)",
        level="note",
    )
