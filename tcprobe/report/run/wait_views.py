"""Which columns the tables on waiting show: what the GPU waits for, its longest gaps, and copies."""

from __future__ import annotations

from tcprobe.report import formatting as f
from tcprobe.report.fields import field_of, name_of, number_of
from tcprobe.report.run.view import View
from tcprobe.schema.waits import HOST_WORK

GAP_VIEW = View(
    "gaps",
    "Longest gaps",
    (
        field_of("start", "start_ns", show=f.moment, unit="ns", right=True),
        number_of("length", "duration_ns"),
        number_of("of the window", "share_pct"),
        field_of("the host did", "host_work", show=lambda work: HOST_WORK.get(work, f.NA), wraps=True),
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
        field_of("the host did", "host_work", show=lambda work: HOST_WORK.get(work, f.NA), wraps=True),
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
