"""What keeps ops off the Tensor Cores, weighed."""

from __future__ import annotations

from dataclasses import dataclass

from tcprobe.schema.columns import FloatArray, Table


@dataclass(frozen=True, slots=True)
class OffTensorCores:
    """Ops with what each costs: kernel time where it was measured, else the FLOPs of the graph's ops.

    Attributes:
        table: rows of `ops`, else of `gemms`: those that something keeps off the Tensor Cores, the costliest first.
        weight: one number per row, same unit throughout.
        total: what shares are taken of.
        measured: weights are ns of kernel time, not FLOPs.
    """

    table: Table
    weight: FloatArray
    total: float
    measured: bool
