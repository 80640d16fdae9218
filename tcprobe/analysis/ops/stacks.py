"""Read JAX's name stacks: which parts are scopes of modules, and which are transformations, calls and equations.

A stack is ``jit(step)/transpose(jvp(Model))/while/body/attention/bqhd,bkhd->bhqk/dot_general``: scopes as modules and
`jax.named_scope` open them, each in the transformations it was traced under, with the calls of functions in between.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import zip_longest
from typing import Final

MOST_SCOPES: Final = 200
"""Scopes that are read of a path, outermost first; no path that was recorded has as many."""
_WRAPPER: Final = re.compile(r"([a-z_]\w*+)\(")
_PARAMETERS: Final = re.compile(r"\[.*", re.DOTALL)  # `dot_general[dimension_numbers=...]`, as older versions write
# What wraps the name of a function that is called, not of a module.
_CALLS: Final = frozenset(("jit", "pjit", "pmap", "xmap", "xla_call", "xla_pmap", "xla_computation", "shard_map"))
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
    return found is not None and call.endswith(")") and found[1] in _CALLS


def scopes_of_stack(op: str) -> tuple[tuple[str, ...], bool]:
    """Return the scopes of modules around an op, outermost first, and whether it computes a gradient."""
    bare = [_bare(part) for part in _PARAMETERS.sub("", op).split("/", MOST_SCOPES)[:-1]]
    return tuple(_modules([name for name, _ in bare if name])), any(transposed for _, transposed in bare)


def _bare(part: str) -> tuple[str, bool]:
    """Return a part without its transformations, empty where it is a call, and whether it is transposed."""
    start, end, transposed = 0, len(part), False
    while end > start and part[end - 1] == ")" and (found := _WRAPPER.match(part, start, end - 1)):
        if found[1] in _CALLS:
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
