"""Build small profiles with round numbers, row by row."""

from __future__ import annotations

import json
from typing import Any

from tcprobe.report.run.advice import with_texts
from tcprobe.schema.columns import Table, TableSpec
from tcprobe.schema.profile import Metadata, Profile
from tcprobe.schema.tables import (
    DEVICES,
    GRAPH_OPS,
    HOST_OPS,
    LAUNCHES,
    METRICS,
    OP_DETAILS,
    PHASES,
    REPORTED,
    STEP_MARKS,
    STEPS,
)

TC = "volta_h884gemm_128x64_ldg8_nn"
FP32 = "volta_sgemm_128x64_nn"
OTHER = "void Eigen::internal::EigenMetaKernel<float>(float*)"
UNKNOWN = "gemm_fusion_dot_7"
V100 = {
    "device": 0, "name": "Tesla V100-SXM2-16GB", "name_basis": "reported", "vendor": "Nvidia",
    "compute_capability": "7.0", "tensor_cores": "unknown", "sm_count": 80, "state": "active",
}  # fmt: skip


def table(spec: TableSpec, rows: list[dict[str, Any]]) -> Table:
    return Table.from_rows(spec, rows)


def launches(*rows: tuple[Any, ...]) -> Table:
    """Rows of (kernel, op_id, iteration, start_ns, duration_ns[, device])."""
    made = [
        {
            "device": row[5] if len(row) > 5 else 0, "stream": 7, "kernel": row[0], "op_id": row[1],
            "iteration": row[2],             "start_ns": row[3], "duration_ns": row[4],
            "config_id": -1, "launch_ns": row[3],
        }
        for row in rows
    ]  # fmt: skip
    return table(LAUNCHES, made)


def details(*rows: tuple[Any, ...]) -> Table:
    """Rows of (op, op_type[, dtype])."""
    return table(OP_DETAILS, [dict(zip(("op", "op_type", "dtype"), row, strict=False)) for row in rows])


def marks(starts: list[int], length: int, name: str = "train") -> Table:
    rows = [{"iteration": i, "name": name, "start_ns": s, "end_ns": s + length} for i, s in enumerate(starts)]
    return table(STEP_MARKS, rows)


def devices(*rows: dict[str, Any]) -> Table:
    return table(DEVICES, [{**V100, **row} for row in rows])


def graph(*rows: dict[str, Any]) -> Table:
    """Rows of `graph_ops`; shapes, dtypes and attributes as Python values."""
    made = []
    for row in rows:
        given = {k: json.dumps(v) if isinstance(v, list | dict) else v for k, v in row.items()}
        defaults = {"function": "__inference_step_1", "executes": "yes", "pass": "forward", "calls_per_step": 1.0}
        made.append({**defaults, "executed_op": given.get("op"), "executed_type": given.get("op_type"), **given})
    return table(GRAPH_OPS, made)


def dense(layer: str, inputs: int, units: int, batch: int = 32, dtype: str = "float16", **more: Any) -> dict[str, Any]:
    """The forward op of a Dense layer."""
    return {
        "op": f"model/{layer}/MatMul", "op_type": "MatMul", "layer": layer, "layer_class": "Dense",
        "input_shapes": [[batch, inputs], [inputs, units]], "input_dtypes": [dtype, dtype],
        "output_shape": [batch, units], "attributes": {"transpose_a": False, "transpose_b": False},
        "source": "model.py:3", **more,
    }  # fmt: skip


def conv(layer: str, size: int, channels: int, filters: int, batch: int = 4, **more: Any) -> dict[str, Any]:
    """The forward op of a 5x5 SAME convolution."""
    return {
        "op": f"model/{layer}/Conv2D", "op_type": "Conv2D", "layer": layer, "layer_class": "Conv2D",
        "input_shapes": [[batch, size, size, channels], [5, 5, channels, filters]], "input_dtypes": ["float16"] * 2,
        "output_shape": [batch, size, size, filters],
        "attributes": {"data_format": "NHWC", "strides": [1, 1, 1, 1], "padding": "SAME"}, **more,
    }  # fmt: skip


def host_ops(*rows: tuple[str, str, int, int]) -> Table:
    made = [{"op": o, "op_type": t, "calls": c, "sum_ns": s, "min_ns": 1, "max_ns": s} for o, t, c, s in rows]
    return table(HOST_OPS, made)


def steps(*rows: tuple[int, int, int | None, str]) -> Table:
    return table(STEPS, [dict(zip(("step", "start_ns", "duration_ns", "kind"), row, strict=True)) for row in rows])


def phases(*rows: tuple[int, int, dict[int, float | None]]) -> Table:
    """Rows of (first step, last step, calls in a step by part); a part is called ``part_KEY``."""
    made = [
        {
            "phase": number, "first_step": first, "last_step": last, "steps": last - first + 1, "basis": "period",
            "parts": json.dumps([{"key": k, "name": f"part_{k}", "calls_per_step": n} for k, n in parts.items()]),
        }
        for number, (first, last, parts) in enumerate(rows)
    ]  # fmt: skip
    return table(PHASES, made)


def metrics(*rows: tuple[int, str, float, str]) -> Table:
    return table(METRICS, [dict(zip(("step", "name", "value", "unit"), row, strict=True)) for row in rows])


def reported(**values: float) -> Table:
    """Metrics by name; ``__`` stands for `` / `` and ``_`` for a space."""
    names = {k: k.replace("__", " / ").replace("_", " ") for k in values}
    return table(REPORTED, [{"metric": names[k], "value": v, "source": "summary"} for k, v in values.items()])


def profile(*tables: Table, **metadata: Any) -> Profile:
    return Profile(Metadata(**{"format": "xplane", **metadata})).with_tables(*tables)


def summary(analysed: Profile) -> dict[str, dict[str, Any]]:
    return {str(row["metric"]): dict(row) for row in analysed.require("summary").rows()}


def rows(analysed: Profile, name: str) -> list[dict[str, Any]]:
    """Rows of a table as a report shows them, texts included."""
    return [dict(row) for row in with_texts(analysed).require(name).rows()]
