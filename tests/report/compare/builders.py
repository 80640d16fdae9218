"""Build comparisons by hand, with every part that a document shows."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from tcprobe.report.compare.document import CompareDocument
from tcprobe.report.document import ReportSpec
from tcprobe.schema.comparison import (
    Change,
    ComparedFigure,
    ComparedRow,
    Comparison,
    Interval,
    Loss,
    Renamed,
    Side,
    Verdict,
)
from tcprobe.schema.profile import Metadata, Note, Profile

MS = 1_000_000.0
WGRAD = "void cudnn::cnn::wgrad2d_grouped_direct_kernel<__half, __half, float, int, (bool)1, (bool)0, (int)1>(...)"
GEMM = "sm80_xmma_wgrad_implicit_gemm_indexed_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize128x128x32_stage4"


def figure(metric: str, unit: str, first: Side | float | None, other: Side | float | None, change: Change) -> Any:
    sides = tuple(side if isinstance(side, Side) else Side(side) for side in (first, other))
    return ComparedFigure(metric, unit, sides, (change,))


def moved(first: float, other: float, unit: str = "less") -> Change:
    return Change(unit, other - first, 100.0 * (other - first) / first)  # type: ignore[arg-type]


def faster() -> Comparison:
    """A step of 100 ms and one of 62 ms: the filter gradient of one layer runs on the Tensor Cores now."""
    step = Change("faster", -38 * MS, -38.0, Interval(-40.2, -38.0, -35.9, (120, 118)))
    figures = (
        figure("step_time_ns", "ns", Side(100 * MS, 98 * MS, 104 * MS), Side(62 * MS, 61 * MS, 66 * MS), step),
        figure("gpu_busy_pct", "pct", 91.0, 83.5, moved(91.0, 83.5)),
        figure("tc_kernel_time_pct", "pct", Side(None, 30.0, 38.0), Side(75.0), Change("more")),
        figure("kernel_time_ns", "ns", 90 * MS, 51 * MS, moved(90 * MS, 51 * MS)),
        figure(
            "peak_memory_bytes", "bytes", 2.0**30, Side(None, reason="the run does not record it"), Change("not known")
        ),
        figure("kernels", "count", 246.0, 246.0, Change("same", 0.0, 0.0)),
        figure("memory_time_ns", "ns", 1 * MS, 1.5 * MS, moved(1 * MS, 1.5 * MS, "more")),
        figure("idle_ns", "ns", 9 * MS, 10 * MS, Change("cannot tell", why="steps differ")),
    )
    layers = (
        ComparedRow("generator/conv2d_3", (45 * MS, 5 * MS), (-40 * MS,), (6.0, 6.0), (None, None), (1 * MS, 5 * MS),
                    source="train_gan.py:41"),
        ComparedRow("generator/new", (0.0, 1 * MS), (1 * MS,), (0.0, 2.0), (None, None), (0.0, 0.0)),
        ComparedRow("generator/dense", (45 * MS, 45 * MS), (0.0,), (2.0, 2.0), (None, None), (45 * MS, 45 * MS)),
        ComparedRow("generator/odd", (None, 3 * MS), (None,), (None, 1.0), (None, None), (None, None)),
    )  # fmt: skip
    kernels = (
        ComparedRow(WGRAD, (42 * MS, 0.0), (-42 * MS,), (2.0, 0.0), ("no", None), (0.0, 0.0)),
        ComparedRow(GEMM, (0.0, 3 * MS), (3 * MS,), (0.0, 2.0), (None, "yes"), (0.0, 3 * MS)),
    )
    return Comparison(
        ("before", "after"),
        (Profile(Metadata("run_folder", ("runs/before",))), Profile(Metadata("run_folder", ("runs/after",)))),
        figures,
        layers=layers,
        kernels=kernels,
        renamed=(Renamed("generator/conv2d_3/Conv2DBackpropFilter", (WGRAD,), (GEMM,), 42 * MS, 3 * MS),),
        losses=(Loss("loss", (1, 2), ((0.7, 0.6), (0.71, None)), (0.6, 0.55), (None, None)),),
        settings=(("precision", ("float32", "mixed_float16")), ("environment.TF_ENABLE_XLA", (None, "1"))),
        notes=(Note("other-profilers", "the profilers differ, and each slows a run in its own way", "compare alike"),),
    )


def with_step(comparison: Comparison, change: Change, other: float | None = 62 * MS) -> Comparison:
    """Return a comparison whose step time changed like this."""
    step = figure("step_time_ns", "ns", 100 * MS, other, change)
    return replace(comparison, figures=(step, *comparison.figures[1:]))


def document(
    comparison: Comparison, top: int | None = None, by: tuple[str, ...] = (), verdicts: tuple[Verdict, ...] = ()
) -> CompareDocument:
    return CompareDocument(comparison, ReportSpec(top, by), verdicts)
