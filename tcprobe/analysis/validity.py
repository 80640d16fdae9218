"""Check a profile: refuse it where the kernels were not recorded, note what weakens its figures."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np
from msgspec.structs import replace

from tcprobe.analysis.kernels.rule import is_cut
from tcprobe.analysis.ops.gemms import uncounted
from tcprobe.analysis.ops.paths import MOST_SCOPES
from tcprobe.analysis.summary.reported import Reported
from tcprobe.errors import MeasurementFailed
from tcprobe.gemm.ops import family_of, gemms_of
from tcprobe.gemm.record import has_no_sizes
from tcprobe.grouping import lasting_since
from tcprobe.schema.columns import Table, Value
from tcprobe.schema.op import OpRecord, Part
from tcprobe.schema.profile import Metadata, Note, Profile

ENOUGH_COVERAGE_PCT: Final = 90.0  # below, the bounds of the Tensor Core share are too far apart to act on
MOST_OUTSIDE_PCT: Final = 1.0
MOST_NAMED: Final = 5
NOT_FINITE: Final = "not-finite"
_ASKED: Final = {"mixed_float16": "fp16", "mixed_bfloat16": "bf16", "tf32": "tf32", "float32": "fp32"}
CHECK: Final = "check that the steps ran on the GPU while the profiler recorded, and run again"
PROFILER_WARNING: Final = "profiler-warning"
"""What a profiler itself warns of; where no kernel was recorded it may be why."""
NO_LAUNCHES: Final = "the source records no kernels"
NOT_USED: Final = "the run used no GPU"
_UNUSUAL: Final = re.compile(r'-|\b0|[.e"]|true|[0-9]{13}')  # in a list of sizes: 2**40 has 13 digits
_OF_A_GPU: Final = ("launches", "launch_configs", "op_details", "memory_ops", "kernels", "devices")
_REPLICA: Final = re.compile(r"(?:^|/)replica_(\d{1,4})/")  # as tf.distribute names what each GPU runs
_HIDES: Final = {"nvidia": "CUDA_VISIBLE_DEVICES", "amd": "ROCR_VISIBLE_DEVICES"}
"""Vendor -> variable that hides the other GPUs; AMD's by the ROCm documentation, GPU isolation techniques (Linux)."""


def check_recorded(profile: Profile) -> None:
    """Refuse a run that used a GPU and left no record of a kernel: its Tensor Core share is not known to be 0 %.

    Raises:
        MeasurementFailed: says what is missing and what to do.
    """
    if has_gpu_record(profile) or not _used(profile):
        return
    notes = profile.metadata.notes
    errors = sorted((n for n in notes if n.level == "error"), key=lambda note: note.remedy is None)
    said = next(iter(errors), next((n for n in notes if n.code == PROFILER_WARNING), None))
    why = f": {said.message}" if said else ""
    remedy = said.remedy if said and said.remedy else CHECK
    place = f"{profile.metadata.paths[0]}: " if profile.metadata.paths else ""
    raise MeasurementFailed(f"{place}the GPU was used and no kernel was recorded{why}", remedy)


def has_gpu_record(profile: Profile) -> bool:
    """Return whether any source says that a kernel ran."""
    if len(profile.require("launches")):
        return True
    for table, column in (("kernels", "calls"), ("kernels", "sum_ns"), ("ops", "sum_ns"), ("ops", "union_ns")):
        if np.nansum(profile.require(table).numbers(column)) > 0:
            return True
    times = Reported(profile).kernel_times
    return times is not None and times.total > 0


def without_gpu(profile: Profile) -> Profile:
    """Mark the empty tables of a GPU as absent, of a run without one: an empty table would read as a count of 0."""
    unused = profile.metadata.gpu_used is False
    empty = [name for name in _OF_A_GPU if (table := profile.table(name)) is not None and not len(table)]
    kept = {name: table for name, table in profile.tables.items() if name not in empty}
    missing = [*empty, *(name for name in ("kernels", "devices") if unused and name not in kept)]
    return replace(profile, tables=kept).with_absent(**dict.fromkeys(missing, NOT_USED if unused else NO_LAUNCHES))


def _used(profile: Profile) -> bool:
    used = profile.metadata.gpu_used
    return len(profile.require("devices")) > 0 if used is None else used


def long_name_notes(profile: Profile) -> Iterator[Note]:
    """Yield a note where names of kernels or paths of ops are longer or deeper than what is read of them."""
    kernels = {name for table in ("launches", "kernels") for name in _names(profile, table, "kernel") if is_cut(name)}
    paths = (name for table in ("op_details", "ops", "graph_ops") for name in _names(profile, table, "op"))
    deep = {path for path in paths if path.count("/") > MOST_SCOPES}
    for count, what, read in (
        (len(kernels), "name(s) of kernels are longer than any known", "their class is told from the beginning"),
        (
            len(deep),
            f"path(s) of ops are deeper than {MOST_SCOPES} scopes",
            "their layers are told from the outer ones",
        ),
    ):
        if count:
            yield Note("long-names", f"{count} {what}: {read}", level="note")


def size_notes(profile: Profile) -> Iterator[Note]:
    """Yield a note where an op that multiplies is said to have a size that none is."""
    odd: dict[str, None] = {}
    for table in map(profile.require, ("op_details", "graph_ops", "host_ops")):
        ops, types = table.names("op"), table.names("op_type")
        for column in (table.names(name) for name in ("input_shapes", "output_shape") if name in table):
            texts = [text for text in column.names if _UNUSUAL.search(text) and has_no_sizes(text)]
            rows = np.flatnonzero(column.among(*texts)).tolist() if texts else ()
            odd |= dict.fromkeys(str(ops[row]) for row in rows if gemms_of(OpRecord(types[row] or "")))
    if odd:
        first = f"{next(iter(odd))} has" if len(odd) == 1 else f"{len(odd)} ops, as {next(iter(odd))}, have"
        message = f"{first} a size below 1, past 2**40 or of another kind: it counts as unknown"
        yield Note("impossible-sizes", message, level="note")


def logged_notes(metrics: Table) -> Iterator[Note]:
    """Yield a warning where the last value that a workload logged is NaN or an infinity: it diverged."""
    ended = list[str]()
    names, values = metrics.names("name"), metrics.numbers("value")
    for number, name in enumerate(names.names):
        rows = np.flatnonzero(names.ids == number)
        if not len(rows) or np.isfinite(values[rows[-1]]):
            continue
        mine = metrics.take(rows)
        if (since := lasting_since(mine.numbers("value"))) is not None:
            step = mine.values("step")[since]
            ended.append(f"{name} {mine.values('value')[-1]}" + ("" if step is None else f" since step {step:,}"))
    if ended:
        more = f" and {len(ended) - MOST_NAMED} more" if len(ended) > MOST_NAMED else ""
        message = f"what the workload logged is no finite number any more: {', '.join(ended[:MOST_NAMED])}{more}"
        yield Note(NOT_FINITE, message, "find out why before its times count: a training that diverged is none")


def _names(profile: Profile, table: str, column: str) -> list[str]:
    return profile.require(table).names(column).names


def coverage_notes(coverage_pct: float | None) -> Iterator[Note]:
    """Yield a warning where too much kernel time is of unknown class."""
    if coverage_pct is not None and coverage_pct < ENOUGH_COVERAGE_PCT:
        yield Note(
            "low-coverage",
            f"the class of {100 - coverage_pct:.1f} % of the kernel time is unknown: the Tensor Core share is a range",
            "hardware counters decide: have Nsight Compute count the Tensor Core instructions of these kernels",
        )


def outside_notes(launches: Table, low: int | None, high: int | None) -> Iterator[Note]:
    """Yield a note where kernels ran in the window that belong to no step: no figure counts them."""
    if low is None or high is None or not len(launches):
        return
    start, spent = launches.numbers("start_ns"), launches.numbers("duration_ns")
    within = (start >= low) & (start < high)
    stray = within & np.isnan(launches.numbers("iteration"))
    whole = int(spent[within].sum())
    share = 100.0 * int(spent[stray].sum()) / whole if whole else 0.0
    if share > MOST_OUTSIDE_PCT:
        yield Note(
            "kernels-outside-steps",
            f"{int(stray.sum())} kernels within the window ({share:.1f} % of its kernel time) belong to no step: "
            "no figure counts them",
        )


def precision_notes(metadata: Metadata, shares: dict[str, float]) -> Iterator[Note]:
    """Yield a note where the multiplications ran in another precision than was asked for, or the script set.

    Args:
        metadata: of the run.
        shares: precision -> share of the kernel time of capable ops, in percent.
    """
    asked = metadata.computes_in
    wanted = _ASKED.get(asked or "")
    if wanted is None or not shares:
        return
    got = shares.get(wanted, 0.0)
    if got < 50.0:
        how = "asked for" if asked == metadata.precision else "set by the script"
        order = sorted(shares.items(), key=lambda item: (-item[1], item[0]))
        ran = ", ".join(f"{name} {share:.0f} %" for name, share in order[:3])
        yield Note(
            "precision-differs",
            f"{asked} was {how}, and {got:.0f} % of the time of matrix multiplications ran in {wanted} ({ran})",
            "check that the policy is set before the layers are built, and that none sets a dtype of its own",
        )


def execution_notes(executes: Sequence[Value]) -> Iterator[Note]:
    """Yield a note where some multiplications may not execute: sums of FLOPs are then bounds.

    Args:
        executes: yes, no or unknown, of each row of `gemms`.
    """
    unsure, counted = list(executes).count("unknown"), sum(e != "no" for e in executes)
    if unsure:
        yield Note(
            "executes-unknown",
            f"whether {unsure} of {counted} matrix multiplications of the graph execute is not known: "
            "sums of FLOPs are a range, those of layers lower bounds",
            level="note",
        )


def own_product_notes(graph: Table) -> Iterator[Note]:
    """Yield a note on what XLA multiplies by itself: instructions in the modules of a step that no traced op explains.

    Args:
        graph: `graph_ops`, joined with XLA's modules.
    """
    families = [(family_of(op_type) or "").startswith("hlo") for op_type in graph.names("op_type").tolist()]
    if all(families) or not any(families):
        return
    own = [row for row, is_own in enumerate(families) if is_own]
    names = sorted({str(graph.names("op")[row]) for row in own})
    what, are = ("1 product", "it is") if len(own) == 1 else (f"{len(own)} products", "they are")
    message = f"XLA has {what} of its own in the step, for no op that was traced as one: {', '.join(names[:4])}"
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    yield Note("xla-own-products", f"{message}{more}; {are} no part of the FLOPs of a step", level="note")


def part_notes(graph: Table, counted: Table, phases: Table) -> Iterator[Note]:
    """Yield a note that names the parts of training which the counted steps do not call.

    Of two parts of one name (a function with another model) nothing is said: the phases tell what becomes of them.

    Args:
        graph: the ops of all parts, as recorded.
        counted: those of the counted steps.
        phases: names the parts.
    """
    named: dict[Value, str] = {part.key: part.name for parts in phases.values("parts") for part in Part.all_of(parts)}
    inside = set(zip(counted.values("function"), counted.values("part"), strict=True))
    outside = dict.fromkeys(zip(graph.values("function"), graph.values("part"), strict=True))
    called = {(part in named and named[part]) or uncounted(str(name)) for name, part in inside}
    names = [named.get(part) or uncounted(str(name)) for name, part in outside if (name, part) not in inside]
    if told := [name for name in dict.fromkeys(names) if name not in called]:
        listed = ", ".join(told[:MOST_NAMED]) + (", ..." if len(told) > MOST_NAMED else "")
        message = f"the counted steps do not call {listed}, which the run trained with: their figures leave it out"
        yield Note("not-in-step", message, level="note")


def idle_notes(devices: Table, ops: Iterable[str] = ()) -> Iterator[Note]:
    """Yield a note where some GPUs of several ran nothing.

    Nothing is to be hidden where ops (`ops`: their paths) are of more replicas than GPUs that ran: the others run too.
    """
    state = devices.values("state")
    active = state.count("active")
    if 0 < active < len(state):
        idle = len(state) - active
        message = f"{active} of {len(state)} GPUs ran kernels, {idle} {'was' if idle == 1 else 'were'} idle"
        vendors = {str(vendor or "nvidia").lower() for vendor in devices.values("vendor")}
        hides = _HIDES.get(vendors.pop()) if len(vendors) == 1 else None
        replicas = sorted({int(found[1]) for op in ops if (found := _REPLICA.search(op))})
        if replicas and replicas[-1] >= active:
            hides, shown = None, ", ".join(f"replica_{number}" for number in replicas[:8])
            message += f"; ops are named {shown}: there are more replicas, whose kernels were not recorded"
        yield Note("idle-devices", message, hides and f"set {hides} to those in use", "note")
