"""Find the outermost calls of the framework that a host thread makes, and what else the host is seen to do.

Python leaves no record of itself unless its tracer is on: what happens between two calls shows by their bounds alone.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tcprobe.probe.constants import STEP_MARK
from tcprobe.readers.arrays import Ints
from tcprobe.readers.host_work import LEAST_NS

# of the threads that call the framework; what Python does in others, it does ahead or beside
_CALLS: Final = re.compile(
    rf"^(?:EagerExecute|EagerLocalExecute|TFE_Py_|PjitFunction|PJRT_LoadedExecutable_Execute|{STEP_MARK}$)"
)
# What every call passes through, and work that is done ahead of the step: no evidence of what the host is busy with.
_NO_EVIDENCE: Final = re.compile(
    rf"^(?:TFE_|Eager|TensorHandle|ValidateInput|FunctionRun$|_Send input|Pjit|PJRT_|PjRt|{STEP_MARK}$)"
    r"|Iterator|Produce$|Consume$|InstantiatedCapturedFunction|^void |[<(]"
)
LONG_NS: Final = 1_000_000  # an event of a thread that does not call the framework


def calls_framework(name: str) -> bool:
    """Return whether an event of this name shows that its thread calls the framework from Python."""
    return _CALLS.search(name) is not None


def is_evidence(name: str) -> bool:
    """Return whether an event of this name, which tells no kind of work, is worth being named."""
    return _NO_EVIDENCE.search(name) is None


class Spans(NamedTuple):
    """Events of one thread, as equally long columns."""

    name: NDArray[np.integer[Any]]  # number of the name
    start_ns: Ints
    duration_ns: Ints

    def take(self, rows: NDArray[Any]) -> Spans:
        """Return some of the events."""
        return Spans(*(column[rows] for column in self))


def joined(parts: list[Spans]) -> Spans:
    """Return the events of all parts, at least one."""
    return Spans(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def outermost_calls(events: Spans, calling: NDArray[np.bool_]) -> Spans:
    """Return the outermost events of a thread within which it calls the framework.

    Args:
        events: of one thread, marks of steps left out; of 0.01 ms and longer.
        calling: whether the event of each shows a call.
    """
    end = events.start_ns + events.duration_ns
    order = np.lexsort((-end, events.start_ns))
    until = np.append(np.iinfo(np.int64).min, np.maximum.accumulate(end[order]))[:-1]
    top = order[events.start_ns[order] >= until]
    place = np.searchsorted(events.start_ns[top], events.start_ns[calling], side="right") - 1
    return events.take(top[np.unique(place[place >= 0])])


def long(events: Spans) -> Spans:
    """Return the events that are long enough to explain something."""
    return events.take(events.duration_ns >= LEAST_NS)
