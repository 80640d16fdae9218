"""Leave out host ops that only hold other ops: their time would count twice."""

from __future__ import annotations

from typing import Final

from tcprobe.schema.columns import Table

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
