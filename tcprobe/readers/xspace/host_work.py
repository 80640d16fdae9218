"""Keep the long events of an XSpace's host while a GPU runs no kernel, and tell the threads that call the framework."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tcprobe.probe.constants import STEP_MARK
from tcprobe.readers.arrays import Ints
from tcprobe.readers.host_work import KINDS, LEAST_NS, Stretches

# of the threads that call the framework; what Python does in others, it does ahead or beside
_CALLS: Final = re.compile(
    rf"^(?:EagerExecute|EagerLocalExecute|TFE_Py_|PjitFunction|PJRT_LoadedExecutable_Execute|{STEP_MARK}$)"
)


def calls_framework(name: str) -> bool:
    """Return whether an event of this name shows that its thread calls the framework from Python."""
    return _CALLS.search(name) is not None


@dataclass(slots=True)
class HostEvents:
    """Long events of the host that say what it does, gathered chunk by chunk.

    Attributes:
        while_idle: when some GPU ran no kernel; events outside are left out.
        names: of the events, by code.
        callers: threads that call the framework; where some are known, only their Python counts.
    """

    while_idle: Stretches
    names: list[str] = field(default_factory=list)
    callers: set[int] = field(default_factory=set)
    _parts: list[tuple[Ints, Ints, Ints, Ints, Ints]] = field(default_factory=list)

    def add(
        self, thread: int, code: NDArray[np.integer[Any]], work: NDArray[np.int8], start: Ints, duration: Ints
    ) -> None:
        """Keep those events of a chunk that are long, tell something, and overlap a stretch without kernels."""
        row = np.flatnonzero((duration >= LEAST_NS) & (work >= 0))
        if len(row):
            row = row[self.while_idle.meet(start[row], start[row] + duration[row])]
        if len(row):
            part = (
                np.full(len(row), thread, np.int64),
                code[row].astype(np.int64),
                work[row].astype(np.int64),
                start[row],
                duration[row],
            )
            self._parts.append(part)

    def columns(self) -> tuple[Ints, Ints, Ints, Ints, Ints]:
        """Return (thread, code of the name, place of the work in `KINDS`, start, duration) of all events."""
        if not self._parts:
            nothing = np.zeros(0, np.int64)
            return nothing, nothing, nothing, nothing, nothing
        thread, code, work, start, duration = (np.concatenate(part) for part in zip(*self._parts, strict=True))
        if not self.callers:
            return thread, code, work, start, duration
        kept = (work != KINDS.index("python")) | np.isin(thread, [*self.callers])
        return thread[kept], code[kept], work[kept], start[kept], duration[kept]
