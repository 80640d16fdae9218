"""Build runs of four steps on a V100 whose kernels follow one another, and tell their causes."""

from __future__ import annotations

from typing import Any

from tcprobe.analysis.flow import analyse
from tcprobe.schema.columns import Row
from tcprobe.schema.profile import Profile
from tests.analysis import builders as b

STEPS = 4
STEP = 1_000_000_000
DIRECT = "void cudnn::cnn::conv2d_grouped_direct_kernel<__half, float>(cudnnTensorStruct)"
LAYOUT = "void nchwToNhwcKernel<__half, float>(int)"
HELPS = "void splitKreduce_kernel<32, 16, int, float>(float*)"
CAST = "void tensorflow::functor::CastKernel<__half>(float const*)"


def run(
    *kernels: tuple[str, int, int],
    ops: tuple[tuple[str, ...], ...] = (),
    graph: tuple[dict[str, Any], ...] = (),
    device: dict[str, Any] | None = None,
    **metadata: Any,
) -> Profile:
    """Return an analysed run: each step launches these kernels (name, row of `ops`, ns), one after the other.

    Without `ops`, those of the graph.
    """
    launched: list[tuple[Any, ...]] = []
    for step in range(STEPS):
        at = step * STEP
        for kernel, op, ns in kernels:
            launched.append((kernel, op, step, at, ns))
            at += ns
    named = ops or tuple((row["op"], row["op_type"]) for row in graph)
    tables = [b.launches(*launched), b.details(*named), b.devices(device or {})]
    tables += [b.marks([step * STEP for step in range(STEPS)], STEP * 9 // 10), b.graph(*graph)]
    return analyse(b.profile(*tables, **metadata))


def causes(profile: Profile) -> dict[str, str]:
    """Return kernel -> its cause."""
    return {str(row["kernel"]): str(row["cause"]) for row in profile.require("kernels").rows()}


def op(profile: Profile, name: str | None = None) -> Row:
    """Return the row of the only op, or of that called `name`."""
    rows = [row for row in profile.require("ops").rows() if name in (None, row["op"])]
    assert len(rows) == 1
    return rows[0]


def bar(profile: Profile) -> dict[tuple[Any, str], Any]:
    """Return (GPU, cause) -> its part of the window."""
    return {(row["device"], str(row["cause"])): row["split_ns"] for row in profile.require("causes").rows()}
