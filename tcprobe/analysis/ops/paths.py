"""Read an op's path: whether it is a gradient, its scope, layer and pass.

Scopes are never shortened: TensorFlow makes them unique with ``_N``, and the user's own names end in it too.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import Final, TypeAlias

from msgspec import Struct

from tcprobe.gemm.ops import OpFamily, family_of
from tcprobe.schema.columns import Table

_CALLS: Final = re.compile(r"^(?:(?:(?:Stateful)?PartitionedCall(?:_\d++)?|replica_\d++)/)+")
_TAPES: Final = re.compile(r"^(?:gradient_tape/)+")
_REWRITER: Final = re.compile(r"ArithmeticOptimizer/FoldTranspose(?:Conjugate)?IntoMatMul_")
_BRANCH: Final = re.compile(r"(^|/)(then|else|body|cond)/_(?:\d+|N)(?=/)")
# A loop in a function that is not inlined (Keras 2's LSTM and GRU): TensorFlow numbers it anew where it lowers it.
_LOWERED: Final = re.compile(r"^while_\d+/(?=(?:body|cond)/_/while/)")
# Scopes that TensorFlow's own functions open around the ops they are made of.
_INNER: Final = re.compile(r"(?:Tensordot|einsum|MatVec)(?:_\d+)?")
_NOT_MODELS: Final = re.compile(r"(?:(?:while|cond|body|then|else|gradients)(?:_\d+)?)?")


Scopes: TypeAlias = tuple[str, ...]


class OpPath(Struct, frozen=True):
    """The scopes of an op, without what frameworks put around them."""

    scopes: Scopes  # in which the op stands; of a gradient, the scope or path of the forward op that it is kept under
    gradient: bool  # whether it computes a gradient
    again: bool = False  # whether that is the gradient of a gradient


def plain_path(op: str) -> str:
    """Return the path without prefixes of calls and graph rewriters, and with all branch and loop counters alike."""
    return _LOWERED.sub("while/", _BRANCH.sub(r"\1\2/_", _REWRITER.sub("", _CALLS.sub("", op))))


def parse_path(op: str) -> OpPath:
    """Return the scopes of an op and whether it is a gradient's.

    Knows TensorFlow's ``gradient_tape/<forward>/<op>`` and ``<forward>_grad/<op>``, and the name stacks of JAX.
    """
    if is_name_stack(op):
        return OpPath(*scopes_of_stack(op))
    text = _CALLS.sub("", _REWRITER.sub("", op))
    tapes = _TAPES.match(text)
    scopes = _CALLS.sub("", _TAPES.sub("", text)).split("/", MOST_SCOPES)[:-1]
    grad = next((i for i, part in enumerate(scopes) if part.endswith("_grad")), None)
    if tapes or grad is None:
        return OpPath(tuple(scopes), tapes is not None, tapes is not None and tapes[0].count("/") > 1)
    return OpPath((*scopes[:grad], scopes[grad].removesuffix("_grad")), True)


class KnownScopes(Struct, frozen=True):
    """The scopes of all ops of a profile."""

    ops: frozenset[Scopes]  # path of every op that is no gradient, the op itself included
    holders: frozenset[Scopes]  # scopes in which a matrix multiplication stands: layers of their own
    # the same, sorted. The scopes around them are models and blocks, whose parts are layers.
    in_order: tuple[Scopes, ...]

    @classmethod
    def of(cls, ops: Iterable[tuple[str, str | None]]) -> KnownScopes:
        """Collect from path and type of every op."""
        forward = [(parse_path(op), op.rpartition("/")[2], op_type) for op, op_type in ops]
        forward = [entry for entry in forward if not entry[0].gradient]
        paths = frozenset((*path.scopes, last) for path, last, _ in forward)
        base = cls(paths, frozenset(), ())
        holders = frozenset(scope_of(path, base) for path, _, op_type in forward if family_of(op_type))
        return cls(paths, holders, tuple(sorted(holders)))

    def model_depth(self, scope: Scopes) -> int:
        """Return how many outer scopes of one are a model's, at most all but itself; 0 where none is."""
        place = bisect_left(self.in_order, scope)
        beside = self.in_order[max(0, place - 1) : place + 1]
        return max([0, *(min(_shared(scope, one), len(one) - 1, len(scope) - 1) for one in beside)])


def _shared(one: Scopes, other: Scopes) -> int:
    """Return how many outer scopes two have in common."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


class RecordedScopes(Struct, frozen=True):
    """Which layer made the ops of each name scope, as the probe saw it; what stands deeper belongs to it."""

    layers: dict[str, str]

    @classmethod
    def of(cls, table: Table | None) -> RecordedScopes:
        """Read the table `scopes`; None where no probe recorded any."""
        rows = table.rows() if table is not None else ()
        return cls({str(row["scope"]): str(row["layer"]) for row in rows})

    def layer_of(self, path: OpPath) -> str | None:
        """Return the layer whose call made an op, or the op whose gradient it is of; None outside any layer."""
        around = ("/".join(path.scopes[:depth]) for depth in range(len(path.scopes), 0, -1))
        return next((self.layers[scope] for scope in around if scope in self.layers), None)


NOTHING_KNOWN: Final = KnownScopes(frozenset(), frozenset(), ())


def scope_of(path: OpPath, known: KnownScopes) -> Scopes:
    """Return the scope in which the forward op stands, without the scopes that ops open for themselves.

    TensorFlow keeps a gradient under its forward op's scope or path, and an op's own reads and reshapes under its
    path. A fused op has lost its path, so the name of a type counts too, and any name in capitals below a layer
    that multiplies. What stands deeper in a model than its layers (``batch_norm/moments``) belongs to the layer.
    """
    kept = path.scopes
    while kept and (_INNER.fullmatch(kept[-1]) or (len(kept) > 1 and (kept in known.ops or family_of(kept[-1])))):
        kept = kept[:-1]
    if kept in known.holders or not known.holders:
        return kept
    depth = known.model_depth(kept) or len(kept) - 1
    part = kept[: depth + 1]
    return part[:-1] if part[:-1] in known.holders and part[-1][:1].isupper() else part


def model_scopes(ops: Iterable[tuple[str, str | None]]) -> frozenset[str]:
    """Return the outermost scopes that hold a matrix multiplication: the models, or layers called by themselves.

    Args:
        ops: path and type of every op of the profile.
    """
    found = {parse_path(op).scopes[:1] for op, op_type in ops if "::" not in op and family_of(op_type)}
    outermost = {scope[0] for scope in found if scope and not _INNER.fullmatch(scope[0])}
    return frozenset(scope for scope in outermost if not _NOT_MODELS.fullmatch(scope))


def layer_of(scopes: Scopes, models: frozenset[str]) -> str | None:
    """Return the scope that stands for the layer; None outside the models."""
    return "/".join(scopes) if scopes and scopes[0] in models else None


def pass_of_path(path: OpPath, op_type: str | None, in_model: bool) -> str | None:
    """Return the pass as far as path and type prove it; None for an op outside the models.

    A gradient MatMul is ``other``: that ``MatMul_1`` is the weight's is a habit, not a rule. So is what the gradient of
    a gradient convolves, unless it makes a filter.
    """
    family: OpFamily | None = family_of(op_type)
    if not in_model and family is None:
        return None
    if not path.gradient:
        return "forward"
    if family == "conv_wgrad":
        return "wgrad"
    return "dgrad" if family in ("conv_dgrad", "conv") and not path.again else "other"


MOST_SCOPES: Final = 200
"""Scopes that are read of a path, outermost first; no path that was recorded has as many."""
_WRAPPER: Final = re.compile(r"([a-z_]\w*+)\(")
_PARAMETERS: Final = re.compile(r"\[.*", re.DOTALL)  # `dot_general[dimension_numbers=...]`, as older versions write
# What wraps the name of a function that is called, not of a module.
_COMPILERS: Final = frozenset(("jit", "pjit", "pmap", "xmap", "xla_call", "xla_pmap", "xla_computation", "shard_map"))
# What wraps the scope of a module; the rest in parentheses is a scope's own name.
_TRANSFORMS: Final = frozenset(("jvp", "transpose", "vmap", "remat", "checkpoint", "linearize"))
# Primitives that hold a function of their own.
_PRIMITIVES: Final = re.compile(
    r"pjit|jit|xla_call|core_call|closed_call|core_closed_call|named_call|remat|remat2|checkpoint|rematted_computation"
    r"|custom_(?:jvp|vjp)_call(?:_jaxpr)?|custom_lin|custom_partitioning|custom_transpose_call|run_state|scan"
    r"|pallas_call|shard_map|xla_pmap|linear_call"
)
_BODIES: Final[dict[str, re.Pattern[str]]] = {  # the primitive -> what it calls its functions
    "while": re.compile(r"body|cond|cond_jaxpr|body_jaxpr"),
    "cond": re.compile(r"branch_\d+(?:_fun)?"),
}
_EQUATION: Final = re.compile(r"->|,|\.\.\.")  # an einsum opens a scope named like its equation


def is_name_stack(op: str) -> bool:
    """Say whether an op's path is a name stack of JAX: it begins with the call of a compiled function."""
    call = op.partition("/")[0]
    found = _WRAPPER.match(call)
    return found is not None and call.endswith(")") and found[1] in _COMPILERS


def scopes_of_stack(op: str) -> tuple[tuple[str, ...], bool]:
    """Return the scopes of modules around an op, outermost first, and whether it computes a gradient."""
    bare = [_bare(part) for part in _PARAMETERS.sub("", op).split("/", MOST_SCOPES)[:-1]]
    return tuple(_modules([name for name, _ in bare if name])), any(transposed for _, transposed in bare)


def _bare(part: str) -> tuple[str, bool]:
    """Return a part without its transformations, empty where it is a call, and whether it is transposed."""
    start, end, transposed = 0, len(part), False
    while end > start and part[end - 1] == ")" and (found := _WRAPPER.match(part, start, end - 1)):
        if found[1] in _COMPILERS:
            return "", transposed
        if found[1] not in _TRANSFORMS:
            break
        transposed |= found[1] == "transpose"
        start, end = found.end(), end - 1
    return part[start:end], transposed


def _modules(names: list[str]) -> Iterator[str]:
    """Yield the names that are modules': no primitive's, no equation, and a module once where its method follows."""
    last, before = "", ""
    for name, after in zip_longest(names, names[1:], fillvalue=""):
        inside, before = _BODIES.get(before), name
        holds = name in _BODIES and _BODIES[name].fullmatch(after) is not None
        if holds or (inside and inside.fullmatch(name)) or _PRIMITIVES.fullmatch(name) or _EQUATION.search(name):
            continue
        method_of, dot, _ = name.partition(".")
        if not (dot and method_of == last.partition(".")[0] and name.count(".") == 1):
            yield name
            last = name
