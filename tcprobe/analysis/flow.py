"""Run the whole analysis: add every derived table, and notes on their limits, to a profile as read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from msgspec.structs import replace

from tcprobe.analysis.causes.advice import advise, off_tensor_cores
from tcprobe.analysis.causes.flow import with_causes
from tcprobe.analysis.chains import NO_CHAINS, build_chains
from tcprobe.analysis.context import DEFAULT_TARGET, Context, Options, context_of, with_identity
from tcprobe.analysis.host import without_containers
from tcprobe.analysis.iterations import (
    Iterations,
    collect_iterations,
    counted,
    device_table,
    is_probed,
    iteration_table,
    whole_capture,
)
from tcprobe.analysis.kernels.counters import counter_notes, with_memory
from tcprobe.analysis.kernels.launches import Launched
from tcprobe.analysis.kernels.table import classify_launches, reclassify
from tcprobe.analysis.ops.attribution import with_layers, with_proof
from tcprobe.analysis.ops.counts import with_counts
from tcprobe.analysis.ops.gemms import Gemms, build_gemms, build_layers
from tcprobe.analysis.ops.table import Ops, build_ops
from tcprobe.analysis.ops.xla import XlaJoin, join_xla
from tcprobe.analysis.phases import graph_of, of_a_step, of_counted, trains_by_threads, window_phase, with_window_phase
from tcprobe.analysis.ranges.kernels import NO_RANGES, NO_TIMES, build_range_kernels, range_notes
from tcprobe.analysis.ranges.nesting import Around, range_times
from tcprobe.analysis.ranges.ops import with_host_products, with_ranges
from tcprobe.analysis.scaling import loss_scale_need
from tcprobe.analysis.screen.flow import with_screen
from tcprobe.analysis.sizes.run import JudgedStep, judged_step, known_gpu
from tcprobe.analysis.stretches import stretch_table, without_start_up
from tcprobe.analysis.summary.figures import SummaryInputs, Totals, not_applicable
from tcprobe.analysis.summary.kernels import build_summary, capable_times, phase_table, precision_shares
from tcprobe.analysis.summary.reported import compare_reported
from tcprobe.analysis.summary.steps import StepTime, step_time, with_waiting
from tcprobe.analysis.units import find_units, unit_table, with_updates
from tcprobe.analysis.validity import (
    NO_LAUNCHES,
    check_recorded,
    coverage_notes,
    execution_notes,
    has_gpu_record,
    idle_notes,
    logged_notes,
    long_name_notes,
    outside_notes,
    own_product_notes,
    part_notes,
    precision_notes,
    size_notes,
    without_gpu,
)
from tcprobe.analysis.waits.gaps import waits_and_gaps
from tcprobe.analysis.waits.tuning import TunedCalls, tuned_calls, tuning_notes, tuning_of
from tcprobe.analysis.whatif.flow import predicted_steps, with_what_ifs
from tcprobe.analysis.window import choose_window
from tcprobe.hardware import find_gpu, lookup_gpu
from tcprobe.progress import advance, begin
from tcprobe.rules.model.step import KnownGpu
from tcprobe.schema.columns import Table
from tcprobe.schema.profile import Note, Profile

XLA_RUNS: Final = frozenset({"_XlaRun", "XlaRun", "XlaLaunch"})
NO_GAPS: Final = "the source does not say when kernels ran"
NO_UNITS: Final = "no unit of kernels repeats five times or more"
NO_FEATURES: Final = "no graph was recorded, and no shape of the profile itself tells which dimensions are features"


class _Analysis:
    """A profile on its way through the passes, and what they hand on beside its tables."""

    profile: Profile
    options: Options
    around: Around | None  # the ranges around launches; None where there are none
    iterations: Iterations
    tuned: TunedCalls
    recorded: Table | None  # the graph with all parts of training, as read
    beside: Table  # of it, the ops that a counted step does not run
    join: XlaJoin  # the graph of the counted steps, joined with what XLA ran of it
    kernels: Table  # of the window; empty where the source has none
    launched: Launched | None  # launches with their class; None where the source has sums only
    whole: bool = True  # whether every launch counts
    step: StepTime | None
    context: Context
    ops: Ops | None
    gemms: Gemms
    gpu: KnownGpu
    judged: JudgedStep | None
    inputs: SummaryInputs

    def __init__(self, profile: Profile, options: Options) -> None:
        self.profile, self.options = profile, options

    def add(self, name: str, table: Table | None, why: str) -> None:
        """Add a derived table; where there is none, say why, unless the source did."""
        if table is not None:
            self.profile = self.profile.with_tables(table)
        elif name not in self.profile.absent:
            self.profile = self.profile.with_absent(**{name: why})

    def note(self, *notes: Note) -> None:
        """Add notes."""
        self.profile = self.profile.with_notes(*notes)

    @property
    def kernel_ns(self) -> float | None:
        """Kernel time of the window; None where nothing was measured."""
        totals = Totals.of(self.kernels, None)
        return totals.kernel_ns if totals else None


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
    analysis = _Analysis(profile, options or Options())
    begin("analysing", len(PASSES))
    for add in PASSES:
        add(analysis)
        advance()
    return analysis.profile


def _target(a: _Analysis) -> None:
    """Judge for the GPU that the run was recorded for, unless another is asked for.

    Raises:
        UsageError: there is no GPU that is called what was asked for, whether a run needs a target or not.
    """
    recorded = a.profile.metadata.target_gpu
    if a.options.target_gpu is not None:
        find_gpu(a.options.target_gpu)
    elif recorded is not None and lookup_gpu(recorded) is None:
        said = f"the target GPU of the run, {recorded!r}, is not in gpus.csv and does not count"
        a.note(Note("target-unknown", said, "--target-gpu chooses another", "note"))
    else:
        a.options = replace(a.options, target_gpu=recorded)


def _recorded(a: _Analysis) -> None:
    """Refuse what was not measured, and remove host ops that would count twice and empty tables that would read 0."""
    check_recorded(a.profile)
    host_ops = a.profile.table("host_ops")
    if host_ops is not None:
        a.profile = a.profile.with_tables(without_containers(host_ops))
    if not has_gpu_record(a.profile):
        a.profile = without_gpu(a.profile)


def _ranges(a: _Analysis) -> None:
    a.profile, a.around = with_ranges(a.profile, a.options)
    a.profile = with_host_products(a.profile)


def _units(a: _Analysis) -> None:
    """Add what launches repeat, mark the steps that one update each shows, else leave a start-up out."""
    found = find_units(a.profile)
    a.add("units", unit_table(a.profile, found) if found else None, NO_UNITS)
    a.profile = with_updates(a.profile, found)
    cut = without_start_up(a.profile, found)
    if cut is not a.profile:
        a.profile, a.around = with_ranges(cut, a.options)


def _devices(a: _Analysis) -> None:
    a.profile = with_identity(a.profile)


def _window(a: _Analysis) -> None:
    """Choose the steps that count: the whole capture where no kernel of them was recorded."""
    a.iterations, a.tuned = collect_iterations(a.profile), tuned_calls(a.profile)
    window, notes = choose_window(a.profile, a.iterations, a.options, a.tuned.rows(a.iterations.of_launch))
    a.note(*notes)
    stored = a.profile.require("launches").numbers("iteration")
    stray = int(np.isnan(stored).sum())
    if window.basis == "whole capture" and window.first is not None and stray:  # it is not that one step
        message = f"{stray} of {len(stored)} kernels belong to no step: the whole capture is counted"
        window = whole_capture(a.profile)
        a.note(Note("kernels-outside-steps", message, level="note"))
    elif window.basis != "given" and len(stored) and not counted(window, stored).any():
        message = "no kernel belongs to the steps that the profile marks: the whole capture is counted"
        remedy = "warm-up may be inside: start the profiler after warm-up, and several steps before the end"
        window = whole_capture(a.profile)
        a.note(Note("steps-without-kernels", message, remedy))
    a.profile = a.profile.with_metadata(window=window, target_gpu=a.options.target_gpu or DEFAULT_TARGET)


def _graph(a: _Analysis) -> None:
    """Leave out the parts of training that the counted steps do not call, say which, and join what XLA ran of it."""
    a.profile = with_window_phase(a.profile, is_probed(a.profile))
    graph = a.recorded = a.profile.table("graph_ops")
    if graph is None:
        a.join, a.beside = join_xla(a.profile), a.profile.require("graph_ops")
        return
    row, phases, window = window_phase(a.profile), a.profile.require("phases"), a.profile.metadata.window
    mine = of_a_step(of_counted(graph if row is None else graph_of(graph, phases, row), window))
    a.recorded = of_counted(graph, window)
    called = set(zip(mine.values("function"), mine.values("part"), strict=True))
    each = zip(graph.values("function"), graph.values("part"), strict=True)
    a.beside = graph.take(np.array([one not in called for one in each], np.bool_))
    join = join_xla(a.profile.with_tables(mine))
    a.join = replace(join, graph=with_layers(join.graph, a.profile.table("scopes")))
    a.profile = a.profile.with_tables(a.join.graph)
    if not trains_by_threads(a.profile):  # else other threads call them, which is said
        a.note(*part_notes(graph, mine, phases))


def _kernels(a: _Analysis) -> None:
    """Classify the kernels of the window, or those that the source sums."""
    launches, summed = a.profile.require("launches"), a.profile.table("kernels")
    a.kernels, a.launched, notes = a.profile.require("kernels"), None, tuple[Note, ...]()
    if len(launches):
        window = a.profile.metadata.window
        inside = counted(window, launches.numbers("iteration"))
        a.kernels, a.launched = classify_launches(a.profile, inside, a.options.kernels)
        a.whole = bool(inside.all())
        if not a.whole:
            notes = tuple(outside_notes(launches, window.start_ns, window.end_ns))
    elif summed is not None:
        a.kernels, notes = reclassify(summed, a.profile, a.options.kernels)
    if len(launches) or summed is not None:
        notes += tuple(counter_notes(a.kernels, a.profile))
        a.kernels = with_memory(a.kernels, a.profile)
    a.add("kernels", a.kernels if len(a.kernels) else None, NO_LAUNCHES)
    a.note(*notes)


def _times(a: _Analysis) -> None:
    """Add devices, iterations, kernel time by range, and how long ranges last on the host."""
    window, steps = a.profile.metadata.window, a.profile.table("iterations")
    devices = device_table(a.profile, window, a.launched, a.kernels) if len(a.profile.require("devices")) else None
    a.add("devices", devices, "the source describes no GPU")
    if len(a.iterations.numbers):
        steps = iteration_table(a.profile, a.iterations, window, a.launched)
    a.add("iterations", steps, "the source marks no steps")
    if a.around is None or a.launched is None or not len(a.around.ranges):
        ranges = a.profile.require("ranges")
        a.add("range_kernels", None, NO_LAUNCHES if a.launched is None else NO_TIMES if len(ranges) else NO_RANGES)
    else:
        a.profile = a.profile.with_tables(build_range_kernels(a.around, a.launched))
    if (spent := range_times(a.profile.require("ranges"))) is not None:
        a.profile = a.profile.with_tables(spent)
    a.note(*range_notes(a.profile))


def _waits(a: _Analysis) -> None:
    """Add how long a step takes and the GPU waits in it, and for what; autotuning, long gaps, copies and stretches."""
    a.step = step_time(a.profile, a.iterations)
    profile = with_waiting(a.profile, a.iterations, a.step)
    inside = counted(profile.metadata.window, profile.require("launches").numbers("iteration"))
    a.profile = replace(profile, tuning=tuning_of(profile, a.tuned, inside))
    a.note(*tuning_notes(a.profile.tuning))
    for name, table in zip(("waits", "gaps", "copies"), waits_and_gaps(a.profile, a.tuned), strict=True):
        a.add(name, table, NO_GAPS)
    if (stretches := stretch_table(a.profile)) is not None:
        a.profile = a.profile.with_tables(stretches)


def _ops(a: _Analysis) -> None:
    """Add ops, and mark the ops of the graph that the profile shows to execute, with how often."""
    devices = a.profile.require("devices")
    used = frozenset(devices.numbers("device")[devices.names("state").among("active")].tolist())
    a.context = context_of(a.profile, a.options, used, has_gpu_record(a.profile))
    a.ops = build_ops(a.profile, a.join, a.beside, a.launched, a.kernels, a.context)
    graph = a.profile.table("graph_ops")
    if graph is not None and a.ops is not None:
        a.profile = a.profile.with_tables(with_proof(graph, a.ops.ran))
    a.profile = with_counts(a.profile)


def _layers(a: _Analysis) -> None:
    """Add gemms, layers and bad sizes."""
    a.gemms = build_gemms(a.profile, a.ops, a.context)
    types = a.ops.table.names("op_type").names if a.ops else ()
    compiled = a.profile.metadata.xla is True or not XLA_RUNS.isdisjoint(types)
    a.gpu = known_gpu(a.context, a.options, compiled)
    a.judged = judged_step(a.profile, a.gemms, a.ops, a.kernel_ns, a.gpu)
    a.add("ops", a.ops.table if a.ops else None, "the source names no ops")
    gemms = a.gemms.table if len(a.gemms.table) else None
    a.add("gemms", gemms, "no op with known shapes multiplies matrices")
    a.add("layers", build_layers(a.ops, a.gemms, a.kernel_ns), "no op belongs to a layer")
    sizes = None
    if a.judged is not None and a.judged.run.tells_sizes:  # else nothing of the rules on sizes is needed
        from tcprobe.analysis.sizes.table import build_bad_sizes

        sizes = build_bad_sizes(a.judged)
    a.add("bad_sizes", sizes, NO_FEATURES)


def _shares(a: _Analysis) -> None:
    """Clear the Tensor Core shares of GPUs that have none: their share is NA, not 0 %."""
    devices = a.profile.table("devices")
    if devices is not None:
        lacking = devices.names("tensor_cores").among("no")
        share = np.where(lacking, np.nan, devices.numbers("tc_kernel_time_pct"))
        a.profile = a.profile.with_tables(devices.with_columns(tc_kernel_time_pct=share))
    if not_applicable(a.context) is None:
        return
    for name, column in (("iterations", "tc_kernel_time_pct"), ("layers", "tc_capable_time_pct")):
        if (table := a.profile.table(name)) is not None:
            a.profile = a.profile.with_tables(table.with_columns(**{column: np.full(len(table), np.nan)}))


def _summary(a: _Analysis) -> None:
    """Sum up; what reports list of the graph is all of it again."""
    a.inputs = SummaryInputs(a.profile, a.context, a.kernels, a.ops, a.gemms, a.step, a.launched)
    a.profile = a.profile.with_tables(build_summary(a.inputs), *(() if a.recorded is None else (a.recorded,)))
    if len(a.profile.require("phases")):
        a.profile = a.profile.with_tables(phase_table(a.inputs, a.recorded))


def _limits(a: _Analysis) -> None:
    """Note what weakens the figures."""
    profile = a.inputs.profile
    totals, times = a.inputs.totals, capable_times(a.inputs)
    paths = profile.require("op_details").names("op").names
    a.note(*idle_notes(profile.require("devices"), paths), *long_name_notes(profile), *size_notes(profile))
    a.note(*logged_notes(profile.require("metrics")))
    a.note(*own_product_notes(profile.require("graph_ops")), *execution_notes(a.gemms.table.values("executes")))
    if totals is None or totals.kernel_ns <= 0:
        return
    if a.inputs.not_applicable is None:
        a.note(*coverage_notes(100.0 * (1.0 - totals.unknown_ns / totals.kernel_ns)))
        ops = zip(*(a.ops.table.values(c) for c in ("op_type", "tc_capable")), strict=True) if a.ops else ()
        capable = frozenset(str(kind) for kind, can in ops if can == "yes")
        a.note(*precision_notes(profile.metadata, precision_shares(a.kernels, capable)))
    ours = {
        "tc_kernel_time_pct": 100.0 * totals.tc_ns / totals.kernel_ns,
        "tc_capable_time_pct": 100.0 * times[1] / times[0] if times and times[0] else None,
        "kernel_time_ns": totals.kernel_ns,
        "tc_time_ns": totals.tc_ns,
    }
    if a.whole and a.inputs.reported:
        a.note(*compare_reported(a.inputs.reported, ours))


def _scaling(a: _Analysis) -> None:
    a.profile = replace(a.profile, loss_scale_need=loss_scale_need(a.profile))


def _causes(a: _Analysis) -> None:
    a.profile = with_causes(a.profile, a.inputs, a.gpu, a.judged)


def _chains(a: _Analysis) -> None:
    a.add("chains", build_chains(a.profile, a.launched), NO_GAPS if a.launched is None else NO_CHAINS)


def _what_ifs(a: _Analysis) -> None:
    profile = with_what_ifs(a.profile, a.judged, a.ops, a.context)
    a.profile = replace(profile, predicted=predicted_steps(profile, a.judged))


def _advice(a: _Analysis) -> None:
    a.profile = with_advice(a.profile)


def _timeline(a: _Analysis) -> None:
    """Lay out what ran when, where that is asked for."""
    if a.options.timeline:
        from tcprobe.analysis.timeline import build_timeline  # of few reports

        made = build_timeline(a.profile, a.launched, a.iterations, a.tuned)
        a.profile = replace(a.profile, timeline=made)


PASSES: Final[tuple[Callable[[_Analysis], None], ...]] = (
    *(_target, _recorded, _ranges, _units, _devices, _window, _graph, _kernels, _times, _waits, _ops),
    *(_layers, _shares, _summary, _limits, _scaling, _causes, _chains, _what_ifs, _advice, _timeline),
)
"""What is done, in this order; each reads what those before it added."""


def with_advice(profile: Profile) -> Profile:
    """Add what keeps ops off the Tensor Cores, what to do and the first screen, which follow from derived tables."""
    return with_screen(advise(replace(profile, off=off_tensor_cores(profile))))
