"""The ops that run off the Tensor Cores, weighted by what each costs."""

from __future__ import annotations

from dataclasses import dataclass

from tcprobe.schema.columns import FloatArray, Table


@dataclass(frozen=True, slots=True)
class OffTensorCores:
    """Ops that run off the Tensor Cores, and what each costs: measured kernel time, else the FLOPs of the graph's ops.

    Attributes:
        table: the rows of `ops` (else of `gemms`) that something keeps off the Tensor Cores, costliest first.
        weight: cost of each row, all in the same unit.
        total: what shares are taken of, in the same unit.
        measured: True if weights are ns of kernel time, False if they are FLOPs.
    """

    table: Table
    weight: FloatArray
    total: float
    measured: bool
