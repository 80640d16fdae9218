"""The options of the analysis."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tcprobe.cost.predict import Constants, load_constants
from tcprobe.hardware import DEFAULT_TARGET, Gpu

__all__ = ["DEFAULT_TARGET", "Options"]


@dataclass(frozen=True, slots=True)
class Options:
    """Choices that change the figures.

    Attributes:
        iter_start, iter_stop: first and last iteration to count, both included; None leaves it to detection.
        target_gpu: id in gpus.csv against which blockers are judged where no GPU ran; None takes the one that the
            run was judged for, else `DEFAULT_TARGET`.
        step_range: regular expression for the names of the ranges that are steps; None leaves that to the reader.
        constants: gives what `tcprobe calibrate` measured on a GPU, None where it has not; asked only where a
            saving is to be predicted.
    """

    iter_start: int | None = None
    iter_stop: int | None = None
    target_gpu: str | None = None
    step_range: str | None = None
    constants: Callable[[Gpu], Constants | None] = load_constants
