"""The figures of a report: what each is called, its value with its range, what it rests on."""

from __future__ import annotations

import re

from tcprobe import formatting as f
from tcprobe.report.document import Cell, Section
from tcprobe.report.fields import cell_of, section, unit_of
from tcprobe.report.run.verdict import BASIS_WORDS
from tcprobe.report.run.words import added
from tcprobe.schema.columns import Row, Value
from tcprobe.schema.finding import SEVERITIES
from tcprobe.schema.profile import Note, Profile

FIRST = {
    "tc_kernel_time_pct": "TC share of kernel time",
    "tc_capable_time_pct": "of capable ops, on Tensor Cores",
    "capable_time_pct": "kernel time in ops that can use them",
    "coverage_pct": "kernels that we can classify",
    "gpu_busy_pct": "GPU busy",
    "idle_pct": "GPU waits",
    "step_time_ns": "step time",
    "mean_step_time_ns": "mean step time",
    "short_step_ns": "steps of the shorter kind",
    "long_step_ns": "steps of the longer kind",
    "epoch_end_ns": "steps at an epoch's end",
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
    "epoch_ends": "steps at an epoch's end, left out",
    "retraces": "steps that traced a function again, left out",
    "bad_size_count": "bad sizes",
    "update_ns": "updates of the weights in a step",
    "ops_idle_ns": "GPU idle within calls of ops",
    "ops_idle_pct": "GPU idle within calls of ops, share of these",
    "gemm_layers": "layers with GEMM-like ops",
}
SUMS = (
    *("kernel_time_ns", "tc_time_ns", "memory_time_ns", "kernels"),
    *("communication_kernel_time_ns", "communication_exposed_ns"),
)
"""Sums over the counted steps and all GPUs."""
# Not printed as an end of the range, however they round.
MEDIANS = (
    *("step_time_ns", "short_step_ns", "long_step_ns", "epoch_end_ns", "retrace_ns", "throughput"),
    "flops_per_step",  # a mean
)


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
        cell_of("figure", lambda row: label(row["metric"]), wraps=True),
        cell_of("value", _value, right=True),
        cell_of("rests on", _basis, 1),
        cell_of("remark", lambda row: _remark(profile, row), wraps=True),
    )
    title = "Figures" if first else "Further figures"
    return section(title, fields, list(filter(_known, rows)), notes)


def _remark(profile: Profile, row: Row) -> str:
    """Return what else is to know of a figure: of a sum, over what."""
    over = added(profile) if row["metric"] in SUMS else ""
    return "; ".join(filter(None, (over, f.any_text(row["reason"]) if row["reason"] else "")))


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
    if metric == "throughput" and row["value"] is not None and row["text"]:  # the unit that the script logs
        return f"{value_text(metric, {**row, 'text': None})} {row['text']}"
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
