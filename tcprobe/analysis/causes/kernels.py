"""Give every kernel one cause: why the time that it takes is spent as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from tcprobe.analysis.causes.parts import Part, is_direct, part_of
from tcprobe.analysis.causes.speed import Speed
from tcprobe.analysis.ops.blockers import short_name
from tcprobe.analysis.ops.table import NO_OP, OpIdentity
from tcprobe.gemm.conv import CONV_PASSES, convolution_of
from tcprobe.gemm.ops import conv_like, family_of, gemms_of
from tcprobe.schema.columns import Row, Table, Value
from tcprobe.schema.kinds import CauseKind
from tcprobe.schema.op import OpRecord

FEW: Final = 4  # channels or filters of one group: cuDNN has Tensor Core kernels for more (docs/cost-model.md)


@dataclass(frozen=True, slots=True)
class Few:
    """The channels, filters or groups for which a library has CUDA-core kernels alone."""

    dimension: str
    size: int


@dataclass(frozen=True, slots=True)
class OpFacts:
    """What the causes of an op's kernels follow from.

    Attributes:
        row: of `ops`.
        speed: of its product; None where unknown.
        few: what of a convolution's shape leaves a library no choice; None where nothing does, or it is no convolution.
    """

    row: Row
    speed: Speed | None = None
    few: Few | None = None

    @property
    def misaligned(self) -> bool:
        """Whether its product is known to run at an unaligned size."""
        return self.speed is not None and self.speed.cause == "tc_misaligned"


def few_of(record: OpRecord | None, op_type: str | None) -> Few | None:
    """Return what of a convolution's shape leaves a library CUDA-core kernels alone: groups, then filters, channels."""
    if record is None or not conv_like(op_type or record.op_type):
        return None
    family = family_of(record.op_type)
    if family in CONV_PASSES:
        conv = convolution_of(record, CONV_PASSES[family])
        groups = None if conv is None else conv.groups
        if groups is not None and groups > 1:
            return Few("groups", groups)
    sizes = {one.role: one.size for gemm in gemms_of(record)[:1] for one in gemm.contiguous}
    small = [(size, role) for role, size in sizes.items() if size is not None and size <= FEW]
    return Few(min(small)[1], min(small)[0]) if small else None


def few_of_gradients(facts: Mapping[OpIdentity, OpFacts]) -> dict[OpIdentity, OpFacts]:
    """Return the facts, those of a gradient that names no channels (XLA's) with the few of its layer's convolutions.

    Only where all convolutions of the layer's forward pass have the same.
    """
    forward: dict[Value, set[Few | None]] = {}
    for (_, op_type), fact in facts.items():
        if conv_like(op_type) and fact.row["pass"] == "forward" and fact.row["layer"] is not None:
            forward.setdefault(fact.row["layer"], set()).add(fact.few)
    found = dict(facts)
    for key, fact in facts.items():
        few = forward.get(fact.row["layer"], set())
        if fact.few is None and conv_like(key[1]) and fact.row["pass"] in ("dgrad", "wgrad") and len(few) == 1:
            found[key] = replace(fact, few=next(iter(few)))
    return found


Parts: TypeAlias = Sequence[Part | None]
"""What part each row of `kernels` has in its op; None where the op could not use Tensor Cores."""


def parts_of(kernels: Table, ops: Mapping[OpIdentity, Row]) -> Parts:
    """Return the parts of kernels; each name is read once, however many launch it."""
    known: dict[str, Part] = {}
    found: list[Part | None] = []
    columns = (kernels.names(name).tolist() for name in ("kernel", "op", "op_type"))
    for kernel, op, op_type in zip(*columns, strict=True):
        row = None if op is None else ops.get((op, op_type))
        if row is None or row["tc_capable"] == "no":
            found.append(None)
            continue
        name = str(kernel)
        if name not in known:
            known[name] = part_of(name)
        found.append(known[name])
    return found


def kernel_causes(kernels: Table, facts: Mapping[OpIdentity, OpFacts], parts: Parts) -> list[CauseKind]:
    """Return the cause of each row of `kernels`.

    Args:
        kernels: with their class.
        facts: of each op, by its path and type.
        parts: of each row.
    """
    direct = _direct_ops(kernels, parts)
    found: list[CauseKind] = []
    columns = (kernels.names(name).tolist() for name in ("op", "op_type", "uses_tc"))
    for op, op_type, uses_tc, part in zip(*columns, parts, strict=True):
        key = (str(op), op_type)
        fact = None if op is None else facts.get(key)
        if fact is None or fact.row["op"] == NO_OP:
            found.append("none" if uses_tc == "yes" else "op_unknown")  # a name may tell that much without an op
        else:
            found.append(_cause(part, uses_tc, fact, key in direct))
    return found


def _cause(part: Part | None, uses_tc: Value, fact: OpFacts, direct: bool) -> CauseKind:
    row = fact.row
    if row["tc_capable"] != "yes":
        return "type" if row["tc_capable"] == "no" else "type_unknown"
    if part == "layout":
        return "layout"
    if not row["tc_ns"]:
        return _off(row["tc_blocker_kind"], fact, direct)
    if uses_tc == "yes" or part == "helps":
        return "none" if fact.speed is None else fact.speed.cause
    return "kernels_unknown" if uses_tc == "unknown" else _off("shape" if fact.misaligned else "library", fact, direct)


def _off(blocker: Value, fact: OpFacts, direct: bool) -> CauseKind:
    """Return the blocker of an op without Tensor Cores; where its shape left the library no choice, that."""
    if blocker in ("shape", "library") and fact.few is not None and direct:
        return "channels"
    kind: CauseKind = "kernels_unknown" if blocker is None else blocker  # type: ignore[assignment]
    return kind


def _direct_ops(kernels: Table, parts: Parts) -> set[OpIdentity]:
    """Return the ops whose costliest kernel that multiplies without Tensor Cores is a direct convolution."""
    costliest: dict[OpIdentity, tuple[float, str]] = {}
    columns = (kernels.names(name).tolist() for name in ("kernel", "op", "op_type", "uses_tc"))
    times = kernels.numbers("sum_ns").tolist()
    for kernel, op, op_type, uses_tc, ns, part in zip(*columns, times, parts, strict=True):
        if op is None or uses_tc != "no" or part != "multiplies":
            continue
        key = (str(op), op_type)
        costliest[key] = max(costliest.get(key, (-1.0, "")), (0.0 if ns != ns else float(ns), str(kernel)))
    return {key for key, (_, kernel) in costliest.items() if is_direct(kernel)}


def short(kernel: Value) -> str | None:
    """Return a kernel's short name; None for none."""
    return None if kernel is None else short_name(str(kernel))
