"""The top of a report: what was profiled, how well the Tensor Cores were used, and all headline figures."""

from __future__ import annotations

import re
from typing import Final

from tcprobe.hardware import DEFAULT_TARGET
from tcprobe.report import formatting as f
from tcprobe.report.blocks import Cell, Section
from tcprobe.report.fields import cell_of, section, unit_of
from tcprobe.report.run.findings import reach
from tcprobe.report.run.units import start_text, step_text, unit_text
from tcprobe.report.run.words import counted_phase, kind_label, phase_steps, step_known
from tcprobe.rules.words import FRAMEWORKS
from tcprobe.schema.columns import Row, Value
from tcprobe.schema.finding import SEVERITIES
from tcprobe.schema.kinds import PRODUCTS
from tcprobe.schema.profile import Metadata, Note, Profile, Window

FIRST = {
    "tc_kernel_time_pct": "TC share of kernel time",
    "tc_capable_time_pct": "TC share within capable ops",
    "capable_time_pct": "capable ops, share of kernel time",
    "coverage_pct": "kernel time of known class",
    "gpu_busy_pct": "GPU busy",
    "idle_pct": "GPU waits",
    "step_time_ns": "step time",
    "mean_step_time_ns": "mean step time",
    "short_step_ns": "steps of the shorter kind",
    "long_step_ns": "steps of the longer kind",
    "epoch_end_ns": "steps with an epoch's end",
    "retrace_ns": "steps that traced a function again",
    "mfu_pct": "MFU, model FLOPs utilisation",
    "hfu_pct": "HFU, recomputation included",
    "achieved_tflop_per_s": "achieved TFLOP/s",
    "peak_pct": "share of the GPU's peak",
}
LABELS = {
    **FIRST,
    "idle_ns": "time that the GPU waits",
    "window_ns": "length of the window",
    "tc_time_ns": "time of TC kernels",
    "memory_time_ns": "time of copies and sets",
    "communication_kernel_time_pct": "communication between GPUs, share of kernel time",
    "communication_kernel_time_ns": "time of communication kernels",
    "communication_exposed_ns": "communication while no other kernel ran",
    "kernels": "kernels launched",
    "iterations_in_window": "iterations counted",
    "flops_per_step": "FLOP in a step",
    "mfu_peak_tflop_per_s": "dense peak of a GPU, TFLOP/s",
    "epoch_ends": "steps with an epoch's end, left out",
    "retraces": "steps that traced a function again, left out",
    "bad_size_count": "bad sizes",
    "ops_idle_ns": "GPU idle within calls of ops",
    "ops_idle_pct": "GPU idle within calls of ops, share of these",
    "gemm_layers": "layers with GEMM-like ops",
}
MOSTLY_IDLE_PCT = 50.0
ALL_PCT = 99.95  # printed as 100.0 %
BOUND_PCT = 60.0  # of a peak; Nsight Compute's own rules take so much for a bound (SOLBottleneck: 60 %)
MUCH_COMMUNICATION_PCT = 10.0
MOST_KINDS = 3  # that the answer names
# Not printed as an end of the range, however they round.
MEDIANS = ("step_time_ns", "short_step_ns", "long_step_ns", "epoch_end_ns", "retrace_ns", "throughput")
DLPROF_REPORTS = {"dlprof_csv": "CSV reports", "dlprof_json": "JSON reports"}
BASIS_WORDS = {
    "counter": "hardware counters",
    "name": "kernel names",
    "shape": "shapes and rates",
    "reported": "the profiler's own report",
    "predicted": "a prediction",
    "measured": "measurement",
    "graph": "the graph",
    "inferred": "inference",
    "user": "your pyproject.toml",
}


def facts(profile: Profile) -> list[tuple[str, str]]:
    """Return what was profiled as (label, text) pairs, without unknown facts."""
    meta = profile.metadata
    found = [
        ("profile", _place(meta)),
        ("recorded by" if _profiler(meta) else "ran with" if meta.framework else "ran", _about(meta)),
        ("command", " ".join(meta.command)),
        ("GPU", _gpus(profile)),
        ("precision", _precision(meta)),
        ("window", _window(profile, meta.window)),
        ("start-up", start_text(profile)),
        ("steps", step_text(profile)),
        ("repeats", unit_text(profile)),
        ("judged for", _target(profile)),
    ]
    return [(label, text) for label, text in found if text]


def _place(meta: Metadata) -> str:
    more = f" and {len(meta.paths) - 1} more" if len(meta.paths) > 1 else ""
    name = f"{meta.paths[0]}{more}" if meta.paths else ""
    return f"{name} (PARTIAL: the run was cut off)".strip() if meta.partial else name


def _profiler(meta: Metadata) -> str:
    return ", ".join(word for word in (meta.profiler, DLPROF_REPORTS.get(meta.format)) if word)


def _about(meta: Metadata) -> str:
    """Return what recorded the profile, which framework ran, and where, without unknown facts."""
    framework = meta.framework or ""
    for name in FRAMEWORKS.values():
        framework = re.sub(rf"^{name}\b", name, framework, flags=re.IGNORECASE)
    words = (_profiler(meta), framework, meta.host and f"on {meta.host}")
    return ", ".join(word for word in words if word)


def _target(profile: Profile) -> str:
    """Return the GPU that a run without one is judged for, and say so if it is only the default."""
    if not _needs_target(profile):
        return ""
    target = str(profile.metadata.target_gpu)
    default = target == DEFAULT_TARGET and profile.metadata.run.get("target_gpu") is None
    return f"{target} ({'the default: ' if default else ''}--target-gpu chooses)"


def _precision(meta: Metadata) -> str:
    xla = {True: "XLA on", False: "XLA off", None: None}[meta.xla]
    return ", ".join(x for x in (meta.precision, xla) if x)


_NO_GPU: Final = {
    "cuda-not-traced": "not known: CUDA was not traced",
    "tpu-profile": "none: a profile of a TPU",
    "no-kernels": "none recorded",
}


def _gpus(profile: Profile) -> str:
    kinds: dict[str, list[Row]] = {}
    for row in profile.require("devices").rows():
        kinds.setdefault(_gpu(row), []).append(row)
    if not kinds:
        codes = {note.code for note in profile.metadata.notes}
        other = next((text for code, text in _NO_GPU.items() if code in codes), "none used: a CPU run")
        return other if profile.metadata.gpu_used is False or "cuda-not-traced" in codes else ""
    several = {name: f"{len(rows)} x {name}" if len(rows) > 1 else name for name, rows in kinds.items()}
    return "; ".join(f"{several[name]}{_states(rows)}" for name, rows in kinds.items())


def _gpu(row: Row) -> str:
    """Return name and abilities of a GPU."""
    vendor = str(row["vendor"] or "")
    name = str(row["name"] or f"{vendor} GPU of unknown name".lstrip())
    inferred = " (inferred)" if row["name_basis"] == "inferred" else ""
    if vendor and vendor.lower() != "nvidia":
        return f"{name}{inferred}, not an NVIDIA GPU"
    compute = f", compute capability {row['compute_capability']}" if row["compute_capability"] else ""
    cores = {"yes": ", has Tensor Cores", "no": ", no Tensor Cores"}.get(str(row["tensor_cores"]), "")
    return f"{name}{inferred}{compute}{cores}"


def _states(rows: list[Row]) -> str:
    idle = [str(r["device"]) for r in rows if r["state"] == "idle"]
    active = [str(r["device"]) for r in rows if r["state"] != "idle"]
    if not idle:
        return ""
    return f": {len(active)} active ({', '.join(active) or 'none'}), {len(idle)} idle ({', '.join(idle)})"


def _window(profile: Profile, window: Window) -> str:
    table = profile.require("iterations")
    phase = counted_phase(profile)
    of = f"{phase[0]}, " if phase else ""
    if window.first is None:
        cut = profile.start_up is not None and window.basis == "whole capture"
        basis = "the capture after its start-up" if cut else window.basis
        return of + basis + _length(profile)
    held = table.numbers("steps")
    many = f": {profile.marked_steps or 0} of {held.sum()} steps counted" if len(table) else ""
    return f"{of}{_span(profile, window)} ({window.basis}){many}{_length(profile)}"


def _span(profile: Profile, window: Window) -> str:
    """Return the numbers of the window's iterations; of its steps, where one iteration holds several."""
    table = profile.require("iterations")
    last = table.numbers("steps")[table.numbers("iteration") == window.last]
    if window.last is not None and len(last) and (table.numbers("steps") > 1).any():
        return f"steps {window.first} to {window.last + int(last[0]) - 1}"
    return f"iteration {window.first}" if window.first == window.last else f"iterations {window.first} to {window.last}"


def _length(profile: Profile) -> str:
    """Return the length of the window and of a step, as far as they are known; once where they are one."""
    window, step = (profile.figure(name) for name in ("window_ns", "step_time_ns"))
    span, each = (None if row is None else row["value"] for row in (window, step))
    known = [f.duration(span)] if span is not None and span != each else []
    known += [f"a step of {f.duration(each)}"] if each is not None else []
    if profile.waiting is not None and profile.waiting.length == "capture":
        known.append("no step is known" if each is None else "no kernel's step is known")
    return f"; {', '.join(known)}" if known else ""


def _needs_target(profile: Profile) -> bool:
    return profile.metadata.target_gpu is not None and profile.metadata.gpu_used is False


def answer(profile: Profile) -> list[str]:
    """Return the headline: how much of the kernel time ran on Tensor Cores, or why that is unknown."""
    row = profile.figure("tc_kernel_time_pct")
    low, high = (None, None) if row is None else (row["low"], row["high"])
    if row is None or (row["value"] is None and None in (low, high)):
        return [f"{_unmeasured(profile, row)}.", *_phase(profile), *_idle(profile), *_reach(profile), *_tuned(profile)]
    open_range = f.percents(low, high) != f.percent(low)
    share = f.percents(low, high) if open_range or row["value"] is None else f.percent(row["value"])
    lines = [f"Kernels that use Tensor Cores took {share} of the kernel time{_grounds(profile, row)}."]
    if open_range:
        lines.append("It is a range because the class of some kernels is unknown: all on Tensor Cores, or none.")
    lines += [*_all_used(profile), *_no_products(profile)]
    return [*lines, *_communication(profile), *_phase(profile), *_idle(profile), *_tuned(profile)]


def _all_used(profile: Profile) -> list[str]:
    """Say that the ops that can use Tensor Cores do, where all of their kernel time is on them."""
    within, capable = (profile.figure(name) for name in ("tc_capable_time_pct", "capable_time_pct"))
    if within is None or capable is None or capable["value"] is None or float(within["low"] or 0) < ALL_PCT:
        return []
    if float(capable["value"]) >= ALL_PCT:  # the line before says so
        return []
    share = f.percent(capable["value"])
    return [f"The ops that can use them do: all of their kernel time, which is {share} of all, is on Tensor Cores."]


def _no_products(profile: Profile) -> list[str]:
    """Say that no kernel multiplies matrices, if the names of all tell that."""
    kernels = profile.require("kernels")
    kinds = set(kernels.values("kind"))
    if not kinds or kinds & {*PRODUCTS, "helper", "unknown", None}:
        return []
    spent = dict.fromkeys(kinds, 0.0)
    for kind, ns in zip(kernels.values("kind"), kernels.values("sum_ns"), strict=True):
        spent[kind] += float(ns or 0)
    costliest = sorted(spent, key=lambda kind: (-spent[kind], str(kind)))[:MOST_KINDS]
    done = "; ".join(kind_label(kind) for kind in costliest)
    # under Nsight Compute the user chose the kernels to look at; what records steps may have missed theirs
    more = "" if "serialises_kernels" in profile.traits else ", and how well training uses them is not told"
    lines = [
        f"No kernel that was recorded multiplies matrices ({done}): Tensor Cores have nothing to gain in them{more}."
    ]
    reached = kernels.numbers("memory_pct")
    if (reached >= BOUND_PCT).all():  # of each kernel it was measured
        lines.append(
            f"Memory bounds them ({f.percents(float(reached.min()), float(reached.max()))} of its peak throughput): "
            "fused with their neighbours they would move less."
        )
    return lines


def _communication(profile: Profile) -> list[str]:
    """Say how much of the kernel time is communication, if it is much, and the share of Tensor Cores in the rest."""
    share, on_tc = (profile.figure(name) for name in ("communication_kernel_time_pct", "tc_kernel_time_pct"))
    if share is None or share["value"] is None or float(share["value"]) < MUCH_COMMUNICATION_PCT:
        return []
    moved = float(share["value"])
    said = f"Communication between GPUs took {f.percent(moved)} of the kernel time"
    if on_tc is None or on_tc["value"] is None or f.percent(on_tc["high"]) != f.percent(on_tc["low"]) or moved >= 100.0:
        return [f"{said}."]
    rest = 100.0 * float(on_tc["value"]) / (100.0 - moved)
    return [f"{said}; of the rest, kernels that use Tensor Cores took {f.percent(rest)}."]


def _phase(profile: Profile) -> list[str]:
    """Say which phase of the run the figures are of, if it has several."""
    found = counted_phase(profile)
    return [f"All figures are of {found[0]} of the run, steps {phase_steps(found[1])}."] if found else []


def _tuned(profile: Profile) -> list[str]:
    """Say that autotuning stands for training, if the window holds any."""
    tuning, steps = profile.tuning, profile.counted_steps
    if tuning is None:
        return []
    held = {None: "The capture holds", 1: "The counted step holds"}.get(steps, "The counted steps hold")
    whose = "its" if steps in (None, 1) else "their"
    share = f"{f.percent(tuning.share_pct)} of {whose} kernel time"
    return [f"{held} autotuning: {share}; the figures are not those of a training step. Profile a later step."]


def _grounds(profile: Profile, row: Row) -> str:
    basis = BASIS_WORDS.get(str(row["basis"]))
    coverage = profile.figure("coverage_pct")
    grounds = [f"by {basis}"] if basis else []
    if coverage and coverage["value"] is not None:
        grounds.append(f"{f.percent(coverage['value'])} of it is of known class")
    return f" ({'; '.join(grounds)})" if grounds else ""


def _idle(profile: Profile) -> list[str]:
    """Say how little of a step the GPU was busy, if it waits for most of it."""
    waiting = profile.waiting
    if waiting is None or waiting.idle_pct < MOSTLY_IDLE_PCT:
        return []
    whole = "time captured" if waiting.length == "capture" else "step"
    busy = f.small_percent(100.0 - waiting.idle_pct)
    waited = f"{f.duration(waiting.idle_ns)} of {f.duration(waiting.step_ns)}"
    return [f"The GPU was busy for {busy} of the {whole}: it waited {waited}."]


def _reach(profile: Profile) -> list[str]:
    """Say how much of the arithmetic the target GPU's Tensor Cores could take, if the graph is known."""
    share = reach(profile)
    if share is None or not _needs_target(profile):
        return []
    target = str(profile.metadata.target_gpu)
    of = "of a step's GEMM-like ops" if step_known(profile) else "of the graph's GEMM-like ops"
    return [f"On {target}, {f.percent(share)} of the FLOPs {of} could use Tensor Cores as they are."]


def _unmeasured(profile: Profile, row: Row | None) -> str:
    reason, kind = (str(row["reason"] or ""), row["reason_kind"]) if row is not None else ("", None)
    reason = reason or profile.absent.get("kernels") or profile.absent.get("summary") or ""
    reason = reason.rstrip(".")
    if reason and kind in ("no_gpu", "no_record"):
        return reason[0].upper() + reason[1:]
    if kind in ("not_nvidia", "no_tensor_cores"):
        return f"Tensor Core use: {reason}"
    return f"Tensor Core use was not measured: {reason}" if reason else "Tensor Core use was not measured"


def figures(profile: Profile, first: bool) -> Section | None:
    """Return headline figures and what they rest on, either those of the first screen or the others; None if none.

    Missing figures are listed below with their reasons, except for the reason in the headline.
    """
    rows = [row for row in profile.require("summary").rows() if (row["metric"] in FIRST) == first]
    headline = profile.figure("tc_kernel_time_pct")
    told = _unmeasured_by(headline) if headline and not _known(headline) else None
    by_reason: dict[str, list[str]] = {}
    for row in rows:
        if not _known(row) and (told is None or _unmeasured_by(row) != told):
            by_reason.setdefault(str(row["reason"] or "no reason given"), []).append(label(str(row["metric"])))
    notes = [f"(not measured: {', '.join(names)}: {reason})" for reason, names in by_reason.items()]
    fields = (
        cell_of("figure", lambda row: label(row["metric"])),
        cell_of("value", _value, right=True),
        cell_of("rests on", _basis, 1),
        cell_of("remark", lambda row: row["reason"] or "", wraps=True),
    )
    title = "Figures" if first else "Further figures"
    return section(title, fields, list(filter(_known, rows)), notes)


def _unmeasured_by(row: Row) -> Value:
    """Return why all figures are missing, as a kind; three of the kinds mean that no kernel was timed."""
    return "no_kernels" if row["reason_kind"] in ("no_gpu", "no_record") else row["reason_kind"]


def _known(row: Row) -> bool:
    return any(row[column] is not None for column in ("value", "low", "high", "text"))


def _value(row: Row) -> Cell:
    metric = str(row["metric"])
    raw = next(row[column] for column in ("value", "text", "low", "high") if row[column] is not None)
    return Cell(value_text(metric, row), raw, unit_of(metric))


def _basis(row: Row) -> str:
    logged = row["metric"] == "throughput" and row["basis"] == "reported"
    return "the workload's log" if logged else BASIS_WORDS.get(str(row["basis"]), "")


def value_text(metric: str, row: Row) -> str:
    """Return a figure with its range, or what is known of it; `row` has ``value``, ``low``, ``high`` and ``text``."""
    low, high = f.metric_text(metric, row["low"]), f.metric_text(metric, row["high"])
    if low != high and f.NA not in (low, high):
        span = f.percents(row["low"], row["high"]) if metric.endswith("_pct") else f"{low} to {high}"
        middle = f.metric_text(metric, row["value"])
        said = metric in MEDIANS or middle not in (low, high)
        return f"{middle} ({span})" if said and middle != f.NA else span
    if row["value"] is None and low != f.NA and high == f.NA:
        return f"at least {low}"
    if row["value"] is None and high != f.NA and low == f.NA:
        return f"at most {high}"
    if row["value"] is None and row["text"]:
        return str(row["text"])
    return "not measured" if row["value"] is None else f.metric_text(metric, row["value"])


def label(metric: str) -> str:
    """Return what a figure is called."""
    if precision := re.fullmatch(r"precision_(\w+)_time_pct", metric):
        return f"kernel time in {precision[1]}" if precision[1] != "unknown" else "kernel time of unknown precision"
    spoken = metric.removesuffix(f"_{unit_of(metric)}").replace("_", " ").replace("tc ", "TC ")
    return LABELS.get(metric, spoken)


def sorted_notes(profile: Profile) -> list[Note]:
    """Return the notes without duplicates: those that cost a figure first, within a level in their given order."""
    return sorted(dict.fromkeys(profile.metadata.notes), key=lambda note: SEVERITIES.index(note.level))
