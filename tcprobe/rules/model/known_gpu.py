"""The GPU that sizes are judged for, as far as it is known, and why no size may matter on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tcprobe.cost.predict import Target
from tcprobe.hardware import Capability
from tcprobe.schema.finding_kinds import WhyKind
from tcprobe.schema.statement import Statement, say


@dataclass(frozen=True, slots=True)
class KnownGpu:
    """What is known of a GPU; a run may not say which one it had.

    Attributes:
        name: of the GPU; None where unknown.
        tensor_cores: False where it is known to have none.
        compute_capability: None where unknown.
        tf32: whether float32 runs as TF32 where the GPU can.
        target: gives what predictions are for, asked only when something is predicted; None where nothing can be.
    """

    name: str | None
    tensor_cores: bool
    compute_capability: Capability | None
    tf32: bool
    target: Callable[[], Target] | None = None

    @classmethod
    def of(cls, target: Target) -> KnownGpu:
        """Return the GPU of a target."""
        gpu = target.gpu
        return cls(gpu.name, gpu.tensor_cores, gpu.compute_capability, target.tf32, lambda: target)

    @property
    def runs_tf32(self) -> bool:
        """Whether float32 may run as TF32: it is allowed, and the GPU is not known to be too old."""
        return self.tf32 and (self.compute_capability is None or self.compute_capability >= (8, 0))


def idle(gpu: KnownGpu, dtype: str | None) -> Statement[WhyKind] | None:
    """Return why no size matters to a dtype on this GPU; None where sizes matter."""
    if not gpu.tensor_cores:
        return say("no_tensor_cores", gpu=gpu.name)
    if dtype in ("bfloat16", "float8") and gpu.target:
        model = gpu.target().gpu
        if model.peak_flop_per_s(dtype) is None:
            return say("no_tensor_cores_for", gpu=model.name, dtype=dtype)
    if dtype in ("float32", "float") and not gpu.runs_tf32:
        return say("plain_float32")
    if dtype in ("float64", "double"):
        return say("float64")
    return None
