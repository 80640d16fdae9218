"""Give every kernel one cause: why its time is spent as it is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from tcprobe.analysis.causes.speed import Speed
from tcprobe.analysis.kernels.parts import Part, is_direct, part_of
from tcprobe.analysis.ops.table import NO_OP, OpIdentity
from tcprobe.gemm.conv import CONV_PASSES, convolution_of
from tcprobe.gemm.ops import conv_like, family_of, gemms_of
from tcprobe.schema.columns import Row, Table, Value
from tcprobe.schema.kinds import CauseKind, KernelKind
from tcprobe.schema.op import OpRecord

FEW: Final = 4  # channels or filters of one group: cuDNN has Tensor Core kernels for more (docs/cost-model.md)


class Kernel(Struct):
    """One row of `kernels`."""

    device: int | None
    name: str
    op: OpIdentity  # `NO_OP` where the source names none
    calls: int | None
    ns: int | None  # None where unknown
    uses_tc: str
    part: Part | None  # what it does in its op; None where the op could not use Tensor Cores
    kind: KernelKind = "unknown"  # what it does by its name
    precision: str | None = None  # of its operands
    cause: CauseKind = "op_unknown"

    @property
    def rank(self) -> tuple[int, str]:
        """The costliest kernel has the highest; of equal ones the last by name."""
        return self.ns or 0, self.name


Kernels: TypeAlias = Mapping[OpIdentity, Sequence[Kernel]]
"""The kernels of each op."""


def kernels_of(table: Table, ops: Mapping[OpIdentity, Row]) -> list[Kernel]:
    """Return the rows of `kernels`, whose causes are yet to be told.

    Args:
        table: `kernels`, with their class.
        ops: op -> its row of `ops`.
    """
    names = ("device", "kernel", "op", "op_type", "calls", "sum_ns", "uses_tc", "kind", "precision")
    columns = (table.values(name) for name in names)
    kernels: list[Kernel] = []
    row: tuple[Any, ...]
    for row in zip(*columns, strict=True):
        device, name, op, op_type, calls, ns, uses_tc, kind, precision = row
        known = None if op is None else ops.get((op, op_type))
        part = None if known is None or known["tc_capable"] == "no" else part_of(name)
        kernels.append(Kernel(device, name, (op or NO_OP, op_type), calls, ns, uses_tc, part, kind, precision))
    return kernels


def by_op(kernels: Sequence[Kernel]) -> dict[OpIdentity, list[Kernel]]:
    """Return the kernels of each op."""
    ops = defaultdict[OpIdentity, list[Kernel]](list)
    for kernel in kernels:
        ops[kernel.op].append(kernel)
    return ops


class Few(NamedTuple):
    """The channels, filters or groups for which a library has CUDA-core kernels alone."""

    dimension: str
    size: int


class OpFacts(Struct, frozen=True):
    """What the causes of an op's kernels follow from."""

    row: Row  # of `ops`
    speed: Speed | None = None  # of its product; None where unknown
    # what of a convolution's shape leaves a library no choice; None where nothing does, or it is no convolution
    few: Few | None = None


def few_of(record: OpRecord | None, op_type: str | None) -> Few | None:
    """Return what of a convolution's shape leaves a library CUDA-core kernels alone: groups, then filters, channels."""
    if record is None or not conv_like(op_type or record.op_type):
        return None
    family = family_of(record.op_type)
    conv = convolution_of(record, CONV_PASSES[family]) if family in CONV_PASSES else None
    if conv is not None and conv.groups is not None and conv.groups > 1:
        return Few("groups", conv.groups)
    sizes = {one.role: one.size for gemm in gemms_of(record)[:1] for one in gemm.contiguous}
    small = [(size, role) for role, size in sizes.items() if size is not None and size <= FEW]
    return Few(min(small)[1], min(small)[0]) if small else None


def few_of_gradients(facts: Mapping[OpIdentity, OpFacts]) -> dict[OpIdentity, OpFacts]:
    """Return the facts, those of a gradient that names no channels (XLA's) with the few of its layer's convolutions.

    Only where all convolutions of the layer's forward pass have the same.
    """
    forward = defaultdict[Value, set[Few | None]](set)
    for (_, op_type), fact in facts.items():
        if conv_like(op_type) and fact.row["pass"] == "forward" and fact.row["layer"] is not None:
            forward[fact.row["layer"]].add(fact.few)
    made = dict(facts)
    for key, fact in facts.items():
        few = forward.get(fact.row["layer"], set())
        if fact.few is None and conv_like(key[1]) and fact.row["pass"] in ("dgrad", "wgrad") and len(few) == 1:
            made[key] = replace(fact, few=next(iter(few)))
    return made


def set_causes(kernels: Kernels, facts: Mapping[OpIdentity, OpFacts]) -> None:
    """Set the cause of each kernel, by the facts of its op."""
    for op, members in kernels.items():
        fact = facts.get(op)
        multiply = [one for one in members if one.uses_tc == "no" and one.part == "multiplies"]
        direct = bool(multiply) and is_direct(max(multiply, key=lambda one: one.rank).name)
        for kernel in members:
            if fact is None or op[0] == NO_OP:  # its name may tell more (`names`)
                kernel.cause = "none" if kernel.uses_tc == "yes" else "op_unknown"
            else:
                kernel.cause = _cause(kernel, fact, direct)


def _cause(kernel: Kernel, fact: OpFacts, direct: bool) -> CauseKind:
    row, speed = fact.row, fact.speed
    if row["tc_capable"] != "yes":
        return "type" if row["tc_capable"] == "no" else "type_unknown"
    if kernel.part == "layout":
        return "layout"
    blocker: Any = row["tc_blocker_kind"] or "kernels_unknown"
    if row["tc_ns"]:
        if kernel.uses_tc == "yes" or kernel.part == "helps":
            return "none" if speed is None else speed.cause
        misaligned = speed is not None and speed.cause == "tc_misaligned"
        blocker = "kernels_unknown" if kernel.uses_tc == "unknown" else "shape" if misaligned else "library"
    # where the shape left the library no choice, that
    return "channels" if blocker in ("shape", "library") and fact.few is not None and direct else blocker


def layout_ns(kernels: Kernels) -> dict[OpIdentity, float]:
    """Return the time of each op's kernels that change layout or type."""
    return {op: sum(one.ns or 0 for one in each if one.part == "layout") for op, each in kernels.items()}
