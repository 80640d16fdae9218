"""Where a training loop of its own applies a tape's gradients, and whether what these are made of was scaled."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from tcprobe.rules.precision.file import File, last_name, words_of
from tcprobe.source.scopes import FunctionNode

_APPLIES: Final = ("apply_gradients", "apply")


class Applied(NamedTuple):
    """A call that applies gradients of a tape."""

    node: ast.Call
    optimizer: ast.expr
    words: frozenset[str]  # every identifier of what led to the gradients: losses, and functions that they come from
    is_traced_back: bool  # whether the tape's `gradient` is among it; else it is not known where they come from


def applied(file: File, files: Sequence[File]) -> Iterator[Applied]:
    """Yield the calls in a file that apply gradients, of files of which one has a tape."""
    if not any(other.called("GradientTape") and other.called("gradient") for other in files):
        return
    functions: dict[str, list[ast.AST]] = {}
    for node in (node for other in files for node in other.nodes if isinstance(node, FunctionNode)):
        functions.setdefault(node.name, []).append(node)
    for call in file.called(*_APPLIES):
        function = file.function_of(call)
        if not isinstance(call.func, ast.Attribute) or (function is not None and function.name in _APPLIES):
            continue
        words = _words_behind(file, call, functions)
        is_traced_back = "gradient" in words
        if is_traced_back or (call.func.attr == "apply_gradients" and file.called("GradientTape", "gradient")):
            yield Applied(call, call.func.value, words, is_traced_back)


def _words_behind(file: File, call: ast.Call, functions: dict[str, list[ast.AST]]) -> frozenset[str]:
    """Return the identifiers of a call's arguments, of what is assigned to these, and of functions called on the way.

    Args:
        file: the call's.
        call: of which arguments.
        functions: all that may be called, by name.
    """
    words: set[str] = set()
    seen: set[ast.AST] = {call}
    pending: list[ast.AST] = [*call.args, *(keyword.value for keyword in call.keywords)]
    while pending:
        for node in ast.walk(pending.pop()):
            words.update(words_of(node))
            found: list[ast.AST] = []
            if isinstance(node, ast.Call):
                found += functions.get(last_name(node.func), ())
            if isinstance(node, ast.Name | ast.Attribute) and node in file.parents:
                found += file.given_to(node)
            pending += (one for one in found if one not in seen)
            seen.update(found)
    return frozenset(words)
