"""The ops whose FLOPs and kernel time are both known, and how long their FLOPs would take at the GPU's peak."""

from __future__ import annotations

from dataclasses import dataclass

from tcprobe.analysis.context import Context
from tcprobe.analysis.ops.gemms import Gemms
from tcprobe.schema.columns import Value


@dataclass(frozen=True, slots=True)
class TimedOp:
    """An op that has shapes and kernel time.

    Attributes:
        record: its number in `Gemms.records`.
        flops: of a step, on all GPUs.
        dtype: of its inputs.
        ns: kernel time within the window.
        at_least: whether it may run more often than is counted.
    """

    record: int
    flops: float
    dtype: Value
    ns: float
    at_least: bool


def timed_ops(gemms: Gemms) -> list[TimedOp]:
    """Return each op whose FLOPs in a step and kernel time are known."""
    found: dict[int, list[tuple[int | None, Value, Value, Value]]] = {}
    columns = (
        gemms.step_flops,
        gemms.gpus,
        gemms.records,
        gemms.table.values("dtype"),
        gemms.table.values("kernel_ns"),
        gemms.table.values("at_least"),
    )
    for flops, gpus, record, dtype, time, longer in zip(*columns, strict=True):
        if time:
            found.setdefault(record, []).append((None if flops is None else flops * gpus, dtype, time, longer))
    return [
        TimedOp(
            record,
            float(sum(f for f, *_ in parts if f is not None)),
            parts[0][1],
            float(parts[0][2] or 0),
            bool(parts[0][3]),
        )
        for record, parts in found.items()
        if all(f is not None for f, *_ in parts)
    ]


def ideal_ns(flops: float, dtype: Value, context: Context) -> float | None:
    """Return the time at the GPU's peak; float32 is TF32 where the run allows it and the GPU has it."""
    gpu = context.gpu
    if gpu is None or dtype is None:
        return None
    names = ["tf32", "float32"] if dtype == "float32" and context.tf32_allowed is not False else [str(dtype)]
    peak = next((p for name in names if (p := gpu.peak_flop_per_s(name))), None)
    return None if not peak else 1e9 * flops / peak
