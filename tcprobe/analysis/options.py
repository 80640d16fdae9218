"""What a person may ask of the analysis."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Options:
    """Choices that change the figures.

    Attributes:
        iter_start, iter_stop: first and last iteration to count, both included; None leaves it to detection.
        target_gpu: id in gpus.csv against which blockers are judged where no GPU ran.
    """

    iter_start: int | None = None
    iter_stop: int | None = None
    target_gpu: str = "a100-sxm-40"
