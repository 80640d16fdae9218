"""A view, and those of where time goes: what the GPU waits for, its longest gaps, copies, ranges, chains."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from tcprobe import formatting as f
from tcprobe.gemm.record import parse_object
from tcprobe.report.fields import Field, field_of, name_of, number_of, source_of
from tcprobe.schema.columns import Value
from tcprobe.schema.records import text_of
from tcprobe.schema.waits import HOST_WORK


class View(Struct, frozen=True):
    """How a report shows one table of the contract."""

    table: str  # its name
    title: str  # its heading; the plural names the rows (``kernels``)
    fields: tuple[Field, ...]
    # columns to sort by, largest first; each breaks ties and NA of the one before; empty keeps the order
    order: tuple[str, ...] = ("sum_ns",)
    # a column, and values of it whose rows are shown however few rows are
    kept: tuple[str, tuple[str, ...]] | None = None


GAP_VIEW = View(
    "gaps",
    "Longest gaps",
    (
        field_of("start", "start_ns", show=f.moment, unit="ns", right=True),
        number_of("length", "duration_ns"),
        number_of("of the window", "share_pct"),
        field_of("waiting for", "host_work", show=lambda work: HOST_WORK.get(work, f.NA), wraps=True),
        name_of("evidence", "host_op", 2),
        number_of("of it", "host_ns", 3),
        name_of("after", "after", 4),
        name_of("before", "before", 1),
        number_of("step", "iteration", 5),
        number_of("GPU", "device", 6),
    ),
    order=("duration_ns",),
)
WAIT_VIEW = View(
    "waits",
    "What the GPU waits for",
    (
        field_of("waiting for", "host_work", show=lambda work: HOST_WORK.get(work, f.NA), wraps=True),
        field_of("short gaps", "short"),
        number_of("share", "share_pct"),
        number_of("a step", "step_ns"),
        number_of("of the window", "idle_ns", 3),
        name_of("evidence", "host_op", 1),
        name_of("in the range", "range", 2),
        number_of("gaps", "stretches", 4),
        number_of("GPU", "device", 5),
    ),
    order=("idle_ns",),
)
RANGE_TIME_VIEW = View(
    "range_times",
    "NVTX ranges by host time",
    (
        name_of("range", "name"),
        field_of("domain", "domain", 1),
        number_of("host time", "sum_ns"),
        number_of("ranges", "calls"),
        number_of("mean", "mean_ns", unit="ns"),
        number_of("min", "min_ns", 2),
        number_of("max", "max_ns", 2),
    ),
    order=("sum_ns",),
)
COPY_VIEW = View(
    "copies",
    "Copies and sets",
    (
        field_of("kind", "kind"),
        number_of("moved", "size_bytes"),
        number_of("device time", "sum_ns"),
        number_of("rate", "bytes_per_s", unit="rate"),
        number_of("beside no kernel", "idle_ns"),
        number_of("a step", "step_ns", 1),
        number_of("calls", "calls", 2),
        number_of("GPU", "device", 3),
    ),
    order=("sum_ns",),
)

MESSAGE_VIEW = View(
    "messages",
    "Collectives of NCCL, over the whole capture",
    (
        field_of("collective", "collective"),
        number_of("each brings", "sent_bytes"),
        field_of("type", "dtype", 2),
        number_of("ranks", "group_size", 1),
        field_of("group", "group", 3),
        number_of("kernels", "launches"),
        number_of("time", "sum_ns"),
        number_of("beside no other kernel", "exposed_ns"),
    ),
    order=("sum_ns",),
)


def chain_label(kinds: Value) -> str:
    """Return what the kernels of a chain do: ``7 copy + 4 elementwise``."""
    counts = parse_object(text_of(kinds))
    return " + ".join(f"{count} {kind}" for kind, count in counts.items()) or f.any_text(kinds)


def rate_text(value: Value) -> str:
    """Return a number in three digits."""
    return f.NA if value is None else f.full_number(float(value), 3)


CHAIN_VIEW: Final = View(
    "chains",
    "Kernels that multiply nothing and follow one another",
    (
        field_of("kernels of a chain", "kinds", show=chain_label, wraps=True, least=24),
        number_of("times", "calls", 1),
        number_of("kernels", "launches"),
        number_of("kernel time", "sum_ns"),
        number_of("share", "share_pct", 1),
        number_of("one kernel saves at most", "at_most_ns"),
        number_of("moved", "moved_bytes", 3),
        field_of("TB/s", "achieved_tb_per_s", 2, rate_text, right=True),
        number_of("of the bandwidth", "bandwidth_pct", 1),
        name_of("costliest op", "op", 2),
        name_of("first kernel", "first_kernel", 5),
        name_of("last kernel", "last_kernel", 6),
        field_of("compiled", "compiled", 5),
        source_of(4, "source"),
        number_of("GPU", "device", 4),
    ),
)
GRADIENT_VIEW: Final = View(
    "gradients",
    "Gradients in float16",
    (
        name_of("layer", "layer"),
        field_of("weight", "weight"),
        number_of("zero in float16", "zero_pct"),
        number_of("subnormal", "subnormal_pct"),
        number_of("infinite", "infinite_pct"),
        field_of("at scale", "scale", 1, lambda scale: f.full_number(float(scale or 0), 7), right=True),
        number_of("zero anyway", "zeros", 2),
        number_of("values looked at", "values", 1),
        number_of("of", "size", 2),
        number_of("updates", "updates", 1),
    ),
    order=("zero_pct", "subnormal_pct"),
)
