"""The ops of the host that are work of their own, and those that only hold others."""

from __future__ import annotations

from typing import Final

import numpy as np

from tcprobe.schema.columns import Table

# The call of a whole function, and control flow around one: their time is that of the ops inside.
_CONTAINERS: Final = frozenset(
    {
        "EagerLocalExecute", "EagerExecute", "EagerKernelExecute", "PartitionedCall", "StatefulPartitionedCall",
        "SymbolicGradient", "RemoteCall", "While", "StatelessWhile", "If", "StatelessIf", "Case", "StatelessCase",
    }
)  # fmt: skip


def without_containers(host_ops: Table) -> Table:
    """Return `host_ops` without those that span other ops, whose time would count twice."""
    names = host_ops.names("op_type")
    own = np.array([name not in _CONTAINERS for name in names.names] + [True], dtype=np.bool_)[names.ids]
    return host_ops if own.all() else host_ops.take(own)
