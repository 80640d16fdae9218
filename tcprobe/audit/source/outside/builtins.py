"""Python's own functions: of lists, dictionaries, attributes."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Final

from tcprobe.audit.source.arrays.datasets import enumerated
from tcprobe.audit.source.attributes import attribute_of
from tcprobe.audit.source.outside.options import command_line_entries
from tcprobe.audit.source.state import State
from tcprobe.audit.source.values.computed import FUNCTIONS
from tcprobe.audit.source.values.kinds import (
    Arguments,
    CommandLine,
    DataSet,
    Entries,
    Items,
    SourceValue,
    Unknown,
    known_constant,
)
from tcprobe.audit.source.values.known import sequence, tensors_of
from tcprobe.audit.source.values.operators import computed
from tcprobe.audit.source.values.parts import elements, result_of, unparsed
from tcprobe.audit.source.values.several import through
from tcprobe.source.values import Known, derived, tuple_of


def builtin(state: State, name: str, given: Arguments, node: ast.Call) -> SourceValue:
    """Return the result of a builtin function."""
    follow = _BUILTINS.get(name)
    made = follow(state, given, node) if follow is not None else None
    if made is not None:
        return through(made, given.args)
    if name in FUNCTIONS and not given.keywords and given.args:
        return computed(name, given.args, node)
    return result_of(node, [t for a in given.args for t in tensors_of(a)])


def _getattr(state: State, given: Arguments, _: ast.Call) -> SourceValue | None:
    of, name, *default = given.args if len(given.args) >= 2 else (None, None)
    if of is None or not isinstance(name, Known) or not isinstance(name.value, str):
        return None
    found = attribute_of(state, of, ast.Attribute(ast.Constant(None), name.value, ast.Load()))
    return default[0] if isinstance(found, Unknown) and len(default) == 1 else found


def _list(_: State, given: Arguments, node: ast.Call) -> SourceValue | None:
    of = given.first
    if of is None:
        return Items([])
    if isinstance(of, Known) and isinstance(of.value, tuple):
        return Items(list(of.elements)) if unparsed(node.func) == "list" else tuple_of(of.elements, node)
    found = elements(of)
    if found is not None:
        return Items(found)
    return Items(list(of.items), of.open) if isinstance(of, Items) else None


def _reversed(_: State, given: Arguments, node: ast.Call) -> SourceValue | None:
    found = elements(given.args[0]) if len(given.args) == 1 else None
    return sequence(found[::-1], node) if found is not None else None


def _enumerate(_: State, given: Arguments, node: ast.Call) -> SourceValue | None:
    if isinstance(given.first, DataSet):
        return enumerated(given.first)
    found = elements(given.first) if given.first is not None else None
    start = given.get(1, "start") or known_constant(0)
    if found is None or not isinstance(start, Known) or type(start.value) is not int:
        return None
    return Items([sequence([known_constant(start.value + i, node), v], node) for i, v in enumerate(found)])


def _iter(_: State, given: Arguments, __: ast.Call) -> SourceValue | None:
    return given.first if isinstance(given.first, DataSet) else None


def _next(_: State, given: Arguments, __: ast.Call) -> SourceValue | None:
    return given.first.element if isinstance(given.first, DataSet) else None


def _zip(_: State, given: Arguments, node: ast.Call) -> SourceValue | None:
    columns = [elements(a) for a in given.args]
    known = [c for c in columns if c is not None]
    if len(known) != len(columns):
        return None
    return Items([sequence(list(row), node) for row in zip(*known, strict=False)])


def _dict(_: State, given: Arguments, __: ast.Call) -> SourceValue | None:
    first = given.first if given.first is not None else Entries({})
    return Entries({**first.entries, **given.keywords}, first.open) if isinstance(first, Entries) else None


def _vars(_: State, given: Arguments, __: ast.Call) -> SourceValue | None:
    return command_line_entries(given.first) if isinstance(given.first, CommandLine) else None


def _len(_: State, given: Arguments, node: ast.Call) -> SourceValue | None:
    found = elements(given.first) if given.first is not None else None
    return derived(len(found), [e for e in found if isinstance(e, Known)], node) if found is not None else None


_BUILTINS: Final[dict[str, Callable[[State, Arguments, ast.Call], SourceValue | None]]] = {
    "list": _list,
    "tuple": _list,
    "reversed": _reversed,
    "enumerate": _enumerate,
    "zip": _zip,
    "iter": _iter,
    "next": _next,
    "dict": _dict,
    "getattr": _getattr,
    "vars": _vars,
    "len": _len,
}
