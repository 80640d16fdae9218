"""What a person may ask of the analysis."""

from __future__ import annotations

from dataclasses import dataclass

from tcprobe.hardware import DEFAULT_TARGET

__all__ = ["DEFAULT_TARGET", "Options"]


@dataclass(frozen=True, slots=True)
class Options:
    """Choices that change the figures.

    Attributes:
        iter_start, iter_stop: first and last iteration to count, both included; None leaves it to detection.
        target_gpu: id in gpus.csv against which blockers are judged where no GPU ran; None takes the one that the
            run was judged for, else `DEFAULT_TARGET`.
    """

    iter_start: int | None = None
    iter_stop: int | None = None
    target_gpu: str | None = None
