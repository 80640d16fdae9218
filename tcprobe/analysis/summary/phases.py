"""Fill the table of phases: how long a step of each takes, and what it multiplies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tcprobe.analysis.context import Context
from tcprobe.analysis.ops.gemms import Gemms, build_gemms
from tcprobe.analysis.phases import graph_of, is_recorded, of_no_shapes, slow_steps, steps_by_phase
from tcprobe.analysis.summary.figures import SummaryInputs
from tcprobe.analysis.summary.steps import StepTime, phase_step_time
from tcprobe.probe.constants import SKIPPED_STEPS
from tcprobe.schema.columns import Row, Table
from tcprobe.schema.kinds import FlopsGap
from tcprobe.schema.profile import Profile
from tcprobe.schema.tables import PHASES


class _Work(NamedTuple):
    """What a step of a phase multiplies: FLOPs that surely execute, whether there may be more, and in how many ops."""

    flops: int | None = None
    at_least: bool = False
    products: int | None = None
    varies: bool = False  # the functions were traced for several sizes


def phase_table(inputs: SummaryInputs, graph: Table | None) -> Table:
    """Return `phases` whole; the phase of the window has the very figures of the summary.

    Args:
        inputs: with the products and the step time of the window's phase.
        graph: the ops of all parts of training; None where the probe recorded none.
    """
    profile = inputs.profile
    phases, slow, of_phase = profile.require("phases"), slow_steps(profile), steps_by_phase(profile)
    rows = []
    for index, row in enumerate(phases.rows()):
        if row["in_window"]:
            step, work = inputs.step, _work(inputs.gemms, profile)
        else:
            step = phase_step_time(profile, of_phase[index], slow)
            work = _Work() if graph is None else _elsewhere(profile, graph, index, inputs.context)
        lacking = work.flops is not None and not is_recorded(phases, index)
        work = work._replace(at_least=work.at_least or lacking)
        told = {"flops_gap": _gap(work, is_recorded(phases, index)), "iter_start": _iter_start(row)}
        made = {"flops": work.flops, "at_least": work.at_least, "products": work.products}
        rows.append({**row, **_timed(step), **made, **told})
    return Table.from_rows(PHASES, rows)


def _elsewhere(profile: Profile, graph: Table, index: int, context: Context) -> _Work:
    """Return what a step of a phase multiplies that was not profiled: what its functions hold."""
    mine = graph_of(of_no_shapes(graph), profile.require("phases"), index)
    if not len(mine):
        return _Work()
    there = profile.with_tables(mine)
    gemms = build_gemms(there, None, context)
    work = _work(gemms, there)
    return work._replace(flops=None, varies=True) if _varies(mine, gemms.graph_rows) else work


def _varies(graph: Table, kept: Sequence[int]) -> bool:
    """Return whether traces that were left out, as repeating those that are `kept`, have products of other sizes."""
    columns = [graph.values(name) for name in ("op", "part", "input_shapes")]
    shapes = {(columns[0][row], columns[1][row]): columns[2][row] for row in kept}
    left = set(range(len(graph))).difference(kept)
    each = ((columns[2][row], shapes.get((columns[0][row], columns[1][row]))) for row in left)
    return any(one != other and other is not None and "null" not in f"{one}{other}" for one, other in each)


def _work(gemms: Gemms, profile: Profile) -> _Work:
    each = list(zip(gemms.step_flops, gemms.table.values("executes"), gemms.ops, strict=True))
    if not each:
        return _Work()
    may = [(flops, executes, op) for flops, executes, op in each if executes != "no"]
    surely = [flops for flops, executes, _ in may if executes == "yes" and flops is not None]
    bounds = profile.require("graph_ops").numbers("at_least") == 1
    looped = bool(bounds[[row for row in gemms.graph_rows if row in gemms.records]].any())
    at_least = bool(surely) and (len(surely) < len(may) or looped)
    return _Work(sum(surely) if surely else None, at_least, len({op for _, _, op in may}))


def _gap(work: _Work, recorded: bool) -> FlopsGap | None:
    """Return why the FLOPs of a step of a phase are not known; None where they are."""
    if work.flops is not None:
        return None
    if work.varies:
        return "several_sizes"
    if work.products:
        return "unknown_product"
    return "no_product" if recorded else "not_recorded"


def _timed(step: StepTime | None) -> Row:
    if step is None:
        return {}
    low, high = map(round, step.spread) if step.spread else (None, None)
    times = {"step_ns": round(step.ns), "step_low_ns": low, "step_high_ns": high}
    return {**times, "timed_steps": step.count, "timed": step.kind}


def _iter_start(row: Row) -> int | None:
    """Return from which step on to profile a phase: past its first ones, which trace."""
    if row["profiled"] is not False:
        return None
    first, last = int(row["first_step"] or 0), int(row["last_step"] or 0)
    return min(first + SKIPPED_STEPS, last)
