"""Run the whole analysis: add every derived table, and notes on their limits, to a profile as read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from tcprobe.analysis.causes.advice import advise
from tcprobe.analysis.causes.flow import with_causes
from tcprobe.analysis.causes.off import off_tensor_cores
from tcprobe.analysis.context import Context, context_of, with_identity
from tcprobe.analysis.host import without_containers
from tcprobe.analysis.iterations import Iterations, collect_iterations, counted, is_probed, whole_capture
from tcprobe.analysis.kernels.classes import classify_launches
from tcprobe.analysis.kernels.contradictions import counter_notes
from tcprobe.analysis.kernels.launches import Launched
from tcprobe.analysis.kernels.table import reclassify
from tcprobe.analysis.ops.attribution import with_layers, with_proof
from tcprobe.analysis.ops.counts import with_counts
from tcprobe.analysis.ops.gemms import Gemms, build_gemms
from tcprobe.analysis.ops.layers import build_layers
from tcprobe.analysis.ops.table import Ops, build_ops
from tcprobe.analysis.ops.xla import XlaJoin, join_xla
from tcprobe.analysis.options import DEFAULT_TARGET, Options
from tcprobe.analysis.phases import graph_of, of_a_step, window_phase, with_window_phase
from tcprobe.analysis.ranges.around import Around
from tcprobe.analysis.ranges.flow import with_ranges
from tcprobe.analysis.ranges.kernels import NO_RANGES, NO_TIMES, build_range_kernels, range_notes
from tcprobe.analysis.sizes.run import JudgedStep, judged_step, known_gpu
from tcprobe.analysis.sizes.table import build_bad_sizes
from tcprobe.analysis.summary.figures import SummaryInputs, Totals, not_applicable
from tcprobe.analysis.summary.phases import phase_table
from tcprobe.analysis.summary.reported import Reported, compare_reported
from tcprobe.analysis.summary.step_time import step_time
from tcprobe.analysis.summary.tensor_cores import build_summary, capable_times, precision_shares
from tcprobe.analysis.summary.waiting import with_waiting
from tcprobe.analysis.timing import device_table, iteration_table
from tcprobe.analysis.validity import (
    NO_LAUNCHES,
    check_recorded,
    coverage_notes,
    execution_notes,
    has_gpu_record,
    idle_notes,
    long_name_notes,
    outside_notes,
    own_product_notes,
    part_notes,
    precision_notes,
    size_notes,
    without_gpu,
)
from tcprobe.analysis.waits.gaps import build_gaps
from tcprobe.analysis.waits.tuning import TunedCalls, tuned_calls, tuning_notes, tuning_of
from tcprobe.analysis.whatif.flow import with_what_ifs
from tcprobe.analysis.window import choose_window
from tcprobe.hardware import find_gpu, lookup_gpu
from tcprobe.schema.columns import Table
from tcprobe.schema.profile import Note, Profile, Window

XLA_RUNS: Final = frozenset({"_XlaRun", "XlaRun", "XlaLaunch"})


@dataclass(frozen=True, slots=True)
class _Kernels:
    """The kernels of a profile, classified.

    Attributes:
        table: of the window; empty where the source has none.
        launched: launches with their class; None where the source has sums only.
        whole: whether every launch counts.
        notes: of classification.
    """

    table: Table
    launched: Launched | None
    whole: bool
    notes: tuple[Note, ...] = ()


def _with_target(profile: Profile, options: Options) -> tuple[Profile, Options]:
    """Return what is asked for with the target that it was recorded for, unless another is asked for.

    Raises:
        UsageError: there is no GPU that is called what was asked for, whether a run needs a target or not.
    """
    recorded = profile.metadata.target_gpu
    if options.target_gpu is not None:
        find_gpu(options.target_gpu)
    elif recorded is not None and lookup_gpu(recorded) is None:
        said = f"the target GPU of the run, {recorded!r}, is not in gpus.csv and does not count"
        return profile.with_notes(Note("target-unknown", said, "--target-gpu chooses another", "note")), options
    return profile, replace(options, target_gpu=options.target_gpu or recorded)


def analyse(profile: Profile, options: Options | None = None) -> Profile:
    """Return the profile with every derived table that its recorded ones allow, and what limits them.

    Sums are over the launches of the window; docs/figures.md gives each formula. The same tables give the same
    result, whatever the order of their rows.

    Args:
        profile: as a reader returns it; derived tables of the source's own (kernels, ops) are completed.
        options: choices; defaults where None.

    Raises:
        UsageError: an iteration outside the profile, or an unknown target GPU.
        MeasurementFailed: a GPU was used and no kernel was recorded.
    """
    options = options or Options()
    profile, options = _with_target(profile, options)
    target = options.target_gpu or DEFAULT_TARGET
    check_recorded(profile)
    profile, around = with_ranges(_cleared(profile), options)
    profile = with_identity(profile)
    found, graph = collect_iterations(profile), profile.table("graph_ops")
    tuned = tuned_calls(profile)
    window, notes = choose_window(profile, found, options, tuned.rows(found.of_launch))
    window, notes = _with_kernels(profile, window, notes)
    profile = profile.with_metadata(window=window, target_gpu=target).with_notes(*notes)
    profile, join = _with_graph_of_the_step(with_window_phase(profile, is_probed(profile)))
    kernels = _kernels(profile)
    profile = _timed(profile, found, kernels).with_notes(*kernels.notes)
    profile = _by_range(profile, around, kernels.launched)
    step = step_time(profile, found)
    profile = _with_gaps(_with_tuning(with_waiting(profile, found, step), tuned), tuned)
    context = context_of(profile, options, _used(profile), has_gpu_record(profile))
    ops = build_ops(profile, join, kernels.launched, kernels.table, context)
    profile = with_counts(_proven(profile, ops))
    gemms = build_gemms(profile, ops, context)
    gpu = known_gpu(context, options, _compiled(profile, ops))
    totals = Totals.of(kernels.table, None)
    judged = judged_step(profile, gemms, ops, totals.kernel_ns if totals else None, gpu)
    profile = _without_shares(_per_layer(profile, ops, gemms, totals, judged), context)
    inputs = SummaryInputs(profile, context, kernels.table, ops, gemms, step, kernels.launched)
    recorded = [build_summary(inputs), *(() if graph is None else (graph,))]
    if len(profile.require("phases")):
        recorded.append(phase_table(inputs, graph))
    profile = profile.with_tables(*recorded).with_notes(*_limits(inputs, kernels))
    return with_advice(with_what_ifs(with_causes(profile, inputs, gpu, judged), judged, ops, context))


def with_advice(profile: Profile) -> Profile:
    """Add what keeps ops off the Tensor Cores and what to do first; both follow from the derived tables."""
    return advise(replace(profile, off=off_tensor_cores(profile)))


def _cleared(profile: Profile) -> Profile:
    """Remove host ops that would count twice, and empty tables that would count as 0."""
    host_ops = profile.table("host_ops")
    if host_ops is not None:
        profile = profile.with_tables(without_containers(host_ops))
    return profile if has_gpu_record(profile) else without_gpu(profile)


def _kernels(profile: Profile) -> _Kernels:
    launches = profile.require("launches")
    if len(launches):
        inside = counted(profile.metadata.window, launches.numbers("iteration"))
        table, launched = classify_launches(profile, inside)
        notes = tuple(outside_notes(launches, *_bounds(profile))) if not inside.all() else ()
        notes += tuple(counter_notes(table, profile))
        return _Kernels(table, launched, bool(inside.all()), notes)
    read = profile.table("kernels")
    if read is None:
        return _Kernels(profile.require("kernels"), None, True)
    table, notes = reclassify(read, profile)
    return _Kernels(table, None, True, (*notes, *counter_notes(table, profile)))


def _with_kernels(profile: Profile, window: Window, notes: tuple[Note, ...]) -> tuple[Window, tuple[Note, ...]]:
    """Return the window, or the whole capture where no kernel of the window was recorded.

    A capture that is counted whole and holds kernels of no step is not that one step.
    """
    stored = profile.require("launches").numbers("iteration")
    stray = int(np.isnan(stored).sum())
    if window.basis == "whole capture" and window.first is not None and stray:
        message = f"{stray} of {len(stored)} kernels belong to no step: the whole capture is counted"
        return whole_capture(profile), (*notes, Note("kernels-outside-steps", message, level="note"))
    if window.basis == "given" or not len(stored) or counted(window, stored).any():
        return window, notes
    message = "no kernel belongs to the steps that the profile marks: the whole capture is counted"
    remedy = "warm-up may be inside: start the profiler after warm-up, and several steps before the end"
    return whole_capture(profile), (*notes, Note("steps-without-kernels", message, remedy))


def _with_graph_of_the_step(profile: Profile) -> tuple[Profile, XlaJoin]:
    """Leave out the parts of training that the counted steps do not call, say which, and join what XLA ran of it."""
    graph = profile.table("graph_ops")
    if graph is None:
        return profile, join_xla(profile)
    row, phases = window_phase(profile), profile.require("phases")
    mine = of_a_step(graph) if row is None else graph_of(graph, phases, row)
    join = join_xla(profile.with_tables(mine))
    join = replace(join, graph=with_layers(join.graph, profile.table("scopes")))
    return profile.with_tables(join.graph).with_notes(*part_notes(graph, mine, phases)), join


def _proven(profile: Profile, ops: Ops | None) -> Profile:
    """Mark the ops of the graph that the profile shows to execute."""
    graph = profile.table("graph_ops")
    if graph is None or ops is None:
        return profile
    return profile.with_tables(with_proof(graph, ops.ran))


def _compiled(profile: Profile, ops: Ops | None) -> bool:
    """Return whether XLA compiled the step: the run says so, or compiled clusters ran."""
    types = ops.table.names("op_type").names if ops else ()
    return profile.metadata.xla is True or not XLA_RUNS.isdisjoint(types)


def _bounds(profile: Profile) -> tuple[int | None, int | None]:
    return profile.metadata.window.start_ns, profile.metadata.window.end_ns


def _used(profile: Profile) -> frozenset[int]:
    devices = profile.require("devices")
    return frozenset(devices.numbers("device")[devices.names("state").among("active")].tolist())


def _timed(profile: Profile, found: Iterations, kernels: _Kernels) -> Profile:
    """Add kernels, devices and iterations; say why one is missing."""
    window = profile.metadata.window
    if len(kernels.table):
        profile = profile.with_tables(kernels.table)
    elif "kernels" not in profile.absent:
        profile = profile.with_absent(kernels=NO_LAUNCHES)
    if len(profile.require("devices")):
        profile = profile.with_tables(device_table(profile, window, kernels.launched, kernels.table))
    elif "devices" not in profile.absent:
        profile = profile.with_absent(devices="the source describes no GPU")
    if len(found.numbers):
        return profile.with_tables(iteration_table(profile, found, window, kernels.launched))
    if profile.table("iterations") is None and "iterations" not in profile.absent:
        profile = profile.with_absent(iterations="the source marks no steps")
    return profile


def _by_range(profile: Profile, around: Around | None, launched: Launched | None) -> Profile:
    """Add kernel time by range, and what it leaves open; say why it is missing."""
    if around is None or launched is None or not len(around.ranges):
        why = NO_LAUNCHES if launched is None else NO_TIMES if len(profile.require("ranges")) else NO_RANGES
        profile = _without(profile, "range_kernels", why)
    else:
        profile = profile.with_tables(build_range_kernels(around, launched))
    return profile.with_notes(*range_notes(profile))


def _with_tuning(profile: Profile, tuned: TunedCalls) -> Profile:
    """Add the autotuning that the window holds, and warn of it."""
    inside = counted(profile.metadata.window, profile.require("launches").numbers("iteration"))
    tuning = tuning_of(profile, tuned, inside)
    return replace(profile, tuning=tuning).with_notes(*tuning_notes(tuning))


def _with_gaps(profile: Profile, tuned: TunedCalls) -> Profile:
    """Add the long stretches without a kernel; say why they are missing."""
    gaps = build_gaps(profile, tuned.call)
    return (
        _without(profile, "gaps", "the source does not say when kernels ran")
        if gaps is None
        else profile.with_tables(gaps)
    )


def _per_layer(
    profile: Profile, ops: Ops | None, gemms: Gemms, totals: Totals | None, judged: JudgedStep | None
) -> Profile:
    """Add ops, gemms, layers and bad sizes; say why one is missing."""
    kernel_ns = totals.kernel_ns if totals else None
    made = {
        "ops": (ops.table if ops else None, "the source names no ops"),
        "gemms": (gemms.table if len(gemms.table) else None, "no op with known shapes multiplies matrices"),
        "layers": (build_layers(ops, gemms, kernel_ns), "no op belongs to a layer"),
        "bad_sizes": (
            build_bad_sizes(judged),
            "no graph was recorded, and no shape of the profile itself tells which dimensions are features",
        ),
    }
    for name, (table, why) in made.items():
        profile = profile.with_tables(table) if table is not None else _without(profile, name, why)
    return profile


def _without_shares(profile: Profile, context: Context) -> Profile:
    """Clear the Tensor Core shares of GPUs that have none: their share is NA, not 0 %."""
    devices = profile.table("devices")
    if devices is not None:
        lacking = devices.names("tensor_cores").among("no")
        share = np.where(lacking, np.nan, devices.numbers("tc_kernel_time_pct"))
        profile = profile.with_tables(devices.with_columns(tc_kernel_time_pct=share))
    if not_applicable(context) is None:
        return profile
    for name, column in (("iterations", "tc_kernel_time_pct"), ("layers", "tc_capable_time_pct")):
        if (table := profile.table(name)) is not None:
            profile = profile.with_tables(table.with_columns(**{column: np.full(len(table), np.nan)}))
    return profile


def _without(profile: Profile, name: str, why: str) -> Profile:
    return profile if name in profile.absent else profile.with_absent(**{name: why})


def _limits(inputs: SummaryInputs, kernels: _Kernels) -> tuple[Note, ...]:
    """Return the notes that follow from the figures."""
    reported = Reported(inputs.profile)
    totals = Totals.of(kernels.table, reported.kernel_times)
    notes: list[Note] = [*idle_notes(inputs.profile.require("devices"))]
    notes += long_name_notes(inputs.profile)
    notes += size_notes(inputs.profile)
    notes += own_product_notes(inputs.profile.require("graph_ops"))
    notes += execution_notes(inputs.gemms.table.values("executes"))
    if totals is None or totals.kernel_ns <= 0:
        return tuple(notes)
    if not_applicable(inputs.context) is None:
        notes += coverage_notes(100.0 * (1.0 - totals.unknown_ns / totals.kernel_ns))
        capable = _capable_types(inputs.ops)
        notes += precision_notes(inputs.profile.metadata.precision, precision_shares(kernels.table, capable))
    spent, on_tc, _ = capable_times(inputs)
    ours = {
        "tc_kernel_time_pct": 100.0 * totals.tc_ns / totals.kernel_ns,
        "tc_capable_time_pct": 100.0 * on_tc / spent if spent and on_tc is not None else None,
        "kernel_time_ns": totals.kernel_ns,
        "tc_time_ns": totals.tc_ns,
    }
    if kernels.whole and reported:
        notes += compare_reported(reported, ours)
    return tuple(notes)


def _capable_types(ops: Ops | None) -> frozenset[str]:
    if ops is None:
        return frozenset()
    pairs = zip(ops.table.values("op_type"), ops.table.values("tc_capable"), strict=True)
    return frozenset(str(kind) for kind, capable in pairs if capable == "yes")
