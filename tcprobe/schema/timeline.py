"""`Timeline`: what ran when, as lanes of slices, in columns; the lanes of a trace and of the page's timeline."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tcprobe.schema.columns import IntArray
from tcprobe.schema.kinds import KernelKind
from tcprobe.schema.screen import RowKind
from tcprobe.schema.waits import HostWork

LaneKind = Literal[
    "phase",  # phases of the run, of which steps are known
    "iteration",  # the steps, counted or not
    "layer",  # of a GPU: the layer of the kernel that began last
    "class",  # of a GPU: likewise what its kernels are, as the bar of the first screen has it
    "wait",  # of a GPU: what it waits for while no kernel runs, within the window
    "stream",  # of a GPU: kernels, copies and sets of one stream
    "range",  # of the host: ranges of one thread
    "event",  # of the host: what one thread did, as far as it tells why a GPU waits
]
SliceClass: TypeAlias = RowKind | HostWork | Literal["counted", "left_out"] | None
"""What a slice is: of a kernel or copy a row of the bar, of a wait or an event what the host did, of a step whether it
counts; None where nothing tells."""


class Thing(Struct, frozen=True):
    """What slices that differ only in their times have in common."""

    name: str | None  # kernel, range, layer, event; None where the class is all that is known
    of: SliceClass = None
    kind: KernelKind | None = None  # of a kernel
    # what else is known, by columns of the tables, without what is NA
    more: tuple[tuple[str, str | int], ...] = ()


class Lane(Struct, frozen=True):
    """Slices that follow or hold one another; none crosses the end of another."""

    kind: LaneKind
    device: int | None  # of a GPU; None of the host and of the run
    number: int | None  # of the stream or thread, -1 where the source has none
    part: int  # of those of one kind and number, whose slices would cross: from 0
    # start_ns, duration_ns: ascending by start, of equal ones the longest first.
    start_ns: IntArray
    duration_ns: IntArray
    depth: NDArray[np.int32]  # slices around each
    thing: NDArray[np.int32]  # place of each in `things`
    things: tuple[Thing, ...]

    def __len__(self) -> int:
        return len(self.start_ns)


class Timeline(Struct, frozen=True):
    """All lanes, from top to bottom: of the run, of each GPU, of the host."""

    lanes: tuple[Lane, ...]
    gpus: dict[int, str | None]  # name of each GPU that has lanes; None where unknown
