"""The options of the analysis."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from tcprobe.cost.constants import Constants, load_constants
from tcprobe.hardware import DEFAULT_TARGET, Gpu
from tcprobe.schema.kinds import NamedKernel

__all__ = ["DEFAULT_TARGET", "Options"]


class Options(Struct, frozen=True):
    """Choices that change the figures."""

    # iter_start, iter_stop: first and last iteration to count, both included; None leaves it to detection.
    iter_start: int | None = None
    iter_stop: int | None = None
    # id in gpus.csv against which blockers are judged where no GPU ran; None takes the one that the run was judged for,
    # else `DEFAULT_TARGET`
    target_gpu: str | None = None
    # regular expression for the names of the ranges that are steps; None leaves that to the reader
    step_range: str | None = None
    kernels: tuple[NamedKernel, ...] = ()  # what the user says of kernels whose names do not tell
    # gives what `tcprobe calibrate` measured on a GPU, None where it has not; asked only where a saving is to be
    # predicted
    constants: Callable[[Gpu], Constants | None] = load_constants
    timeline: bool = False  # whether to lay out what ran when (`Profile.timeline`)
