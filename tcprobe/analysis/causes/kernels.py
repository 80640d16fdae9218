"""Give every kernel one cause: why its time is spent as it is; its name tells what part it has in its op."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from tcprobe.analysis.causes.speed import Speed
from tcprobe.analysis.kernels.rule import MULTIPLIES, NameParts
from tcprobe.analysis.kernels.verdict import by_name, may_multiply
from tcprobe.analysis.ops.table import NO_OP, OpIdentity
from tcprobe.gemm.conv import CONV_PASSES, convolution_of
from tcprobe.gemm.ops import conv_like, family_of, gemms_of
from tcprobe.schema.columns import Row, Table, Value
from tcprobe.schema.kinds import CauseKind
from tcprobe.schema.op import OpRecord

FEW: Final = 4  # channels or filters of one group: cuDNN has Tensor Core kernels for more (docs/cost-model.md)
Part = Literal["multiplies", "layout", "helps"]

# Words of a kernel's own name that say nothing but that it moves elements to other places or types: layout changes of
# cuDNN and XLA (nchwToNhwc, tensorTransform, input_transpose_fusion), casts, copies of PyTorch's .to(). A layout alone
# (BiasNHWCKernel) is where a kernel works, and a permutation of rows (permute_2D_data) is no change of layout.
_LAYOUT: Final = re.compile(
    r"(?:^|_)(?:transposes?|transposed|permutation_kernel\w*|n[cdhw0-9]+_(?:to|2)_n[cdhw0-9]+|cast\w*|cvt|convert\w*?"
    r"|reformat|tensor_transform|direct_copy|(?:(?:loop|input|wrapped)_)?copy(?:_fusion)?)(?:_|\d|$)"
)
# The same of PyTorch, TensorRT, Eigen (casts, but not where they compute too) and TensorFlow (transpositions)
_COPIES: Final = re.compile(
    r"(?:direct|b?float\d+)_copy_kernel|genericReformat::|SwapDimension\dAnd\dInTensor|ShuffleInTensor\d"
    r"|^(?!.*(?:TensorCwise(?:Unary|Binary|Ternary)|Tensor(?:Tuple)?Reduc(?:tion|er))Op).*TensorConversionOp",
    re.DOTALL,
)
# Compilers name a fusion after the ops in it (loop_add_convert_fusion, triton_poi_fused__to_copy_add_3): it changes
# layout or type alone where each of them does, or reads or writes in another place.
_FUSED: Final = re.compile(r"(?:[a-z]+_)??(?P<ops>[a-z_]+)_fusion[._\d]*|triton_[a-z]{3}_fused_(?P<too>\w+?)(?:_\d+)?")
_MOVES: Final = frozenset(
    (
        *("loop", "input", "wrapped", "copy", "transpose", "convert", "bitcast", "reshape", "broadcast", "slice"),
        *("concatenate", "reverse", "pad", "to", "clone", "permute", "view", "expand", "squeeze", "unsqueeze", "t"),
        *("as", "strided", "select", "alias", "detach", "element", "type", "prims", "unsafe", "contiguous"),
    )
)
# Kernels around the product of an algorithm for convolutions: they turn images into matrices, and transform operands
_TRANSFORMS: Final = re.compile(
    r"(?:^|_)(?:im2col\w*|col2im\w*|flip_filter|winograd_\w*(?:data|filter|output|delta|tiles)\w*)(?:_|\d|$)"
)
_NOT_COPIES: Final = re.compile(r"(?:^|_)(?:cat|recat|batched|async)(?:_|$)")
_MULTIPLIES: Final = re.compile(MULTIPLIES, re.VERBOSE)
_DIRECT: Final = re.compile(r"direct|grouped|depthwise|c1_k1|convolve|(?:^|_)[dw]grad\d?d?_(?:alg|engine)")


@lru_cache(maxsize=65536)
def part_of(kernel: str) -> Part:
    """Return what part a kernel has in an op that multiplies matrices, by its name alone.

    A kernel of whose name no rule knows that it moves or maps data counts as one that multiplies.
    """
    verdict, texts = by_name(kernel), NameParts.of(kernel).texts
    words = texts["words"]
    moves = (_LAYOUT.search(words) and not _NOT_COPIES.search(words)) or _COPIES.search(texts["whole"])
    if verdict.uses_tc != "yes" and moves and not _MULTIPLIES.search(words):
        return "helps" if _computes_too(words) else "layout"
    transforms = verdict.uses_tc != "yes" and _TRANSFORMS.search(words) and "gemm" not in words
    return "multiplies" if may_multiply(verdict) and not transforms else "helps"


def _computes_too(words: str) -> bool:
    """Say whether a compiler's fusion, by the ops in its name, does more than change layout or type."""
    fused = _FUSED.fullmatch(words)
    ops = "" if fused is None else fused["ops"] or fused["too"]
    return any(op and not op.isdecimal() and op not in _MOVES for op in ops.split("_"))


@lru_cache(maxsize=65536)
def is_direct(kernel: str) -> bool:
    """Say whether a kernel computes a convolution without turning it into a matrix product, by its name.

    cuDNN's grouped, direct and depthwise kernels, and its older ones for few channels (``implicit_convolve_sgemm``).
    """
    return _DIRECT.search(NameParts.of(kernel).texts["words"]) is not None


class Kernel(Struct):
    """One row of `kernels`."""

    device: int | None
    name: str
    op: OpIdentity  # `NO_OP` where the source names none
    calls: int | None
    ns: int | None  # None where unknown
    uses_tc: str
    part: Part | None  # what it does in its op; None where the op could not use Tensor Cores
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
    columns = (table.values(name) for name in ("device", "kernel", "op", "op_type", "calls", "sum_ns", "uses_tc"))
    kernels: list[Kernel] = []
    row: tuple[Any, ...]
    for row in zip(*columns, strict=True):
        device, name, op, op_type, calls, ns, uses_tc = row
        known = None if op is None else ops.get((op, op_type))
        part = None if known is None or known["tc_capable"] == "no" else part_of(name)
        kernels.append(Kernel(device, name, (op or NO_OP, op_type), calls, ns, uses_tc, part))
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
            if fact is None or op[0] == NO_OP:  # a name may tell that much without an op
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
