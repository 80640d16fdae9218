"""What the host ran: ops that only hold other ops, whose time would count twice, and of which process a thread is."""

from __future__ import annotations

from typing import Final

import numpy as np

from tcprobe.grouping import positions_in
from tcprobe.schema.columns import FloatArray, Table
from tcprobe.schema.profile import Profile

LEAST_STEPS: Final = 3
"""Two of anything are regular."""
_FUNCTIONS: Final = ("__inference_", "__forward_", "__backward_")  # as TensorFlow names what it traced and compiled
# The call of a whole function, and control flow around one: their time is that of the ops inside.
_CONTAINERS: Final = frozenset(
    {
        "EagerLocalExecute", "EagerExecute", "EagerKernelExecute", "PartitionedCall", "StatefulPartitionedCall",
        "SymbolicGradient", "RemoteCall", "While", "StatelessWhile", "If", "StatelessIf", "Case", "StatelessCase",
    }
)  # fmt: skip


def without_containers(host_ops: Table) -> Table:
    """Return `host_ops` without calls of whole functions and control flow, which span other ops."""
    types = host_ops.names("op_type")
    traced = [name for name in types.names if name is not None and str(name).startswith(_FUNCTIONS)]
    own = ~types.among(*_CONTAINERS, *traced)
    return host_ops if own.all() else host_ops.take(own)


def processes_of(profile: Profile, threads: FloatArray) -> FloatArray:
    """Return the process of each thread; NaN where the source does not say."""
    table = profile.require("threads")
    order = np.argsort(table.numbers("thread"), kind="stable")
    numbers, process = table.numbers("thread")[order].astype(np.int64), table.numbers("process")[order]
    place = positions_in(np.nan_to_num(threads, nan=-1.0).astype(np.int64), numbers)
    return np.append(process.astype(np.float64), np.nan)[place]
