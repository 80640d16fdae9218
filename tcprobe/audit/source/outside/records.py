"""Records that functions of other modules make: namespaces, named tuples."""

from __future__ import annotations

import ast
from typing import Final

from tcprobe.audit.source.values.kinds import Arguments, Class, CommandLine, Env, SourceValue
from tcprobe.audit.source.values.known import items_of
from tcprobe.source.values import Known

_NAMESPACES: Final = ("types.SimpleNamespace", "argparse.Namespace", "ml_collections.ConfigDict")
_TUPLES: Final = ("typing.NamedTuple", "collections.namedtuple")


def record(name: str, given: Arguments, node: ast.Call) -> SourceValue | None:
    """Return a filled namespace, or a class of named tuples; None where a name makes neither."""
    if name in _NAMESPACES and not given.args and not given.lacking:
        return CommandLine(dict(given.keywords), given=True)
    if name not in _TUPLES or len(given.args) < 2:
        return None
    fields = _fields(given.args[1])
    if fields is None:
        return None
    lines: list[ast.stmt] = [ast.AnnAssign(ast.Name(f, ast.Store()), ast.Constant(None), None, 1) for f in fields]
    made = ast.ClassDef("", [], [], lines, [])
    return Class(ast.copy_location(made, node), Env(), [])


def _fields(given: SourceValue) -> list[str] | None:
    """Return the names of fields: of a text, of a list of texts or of pairs with a type."""
    if isinstance(given, Known) and isinstance(given.value, str):
        return given.value.replace(",", " ").split()
    parts = items_of(given)
    heads = [(items_of(part) or [part])[0] for part in parts] if parts is not None else []
    names = [h.value for h in heads if isinstance(h, Known) and isinstance(h.value, str)]
    return names if parts is not None and len(names) == len(parts) else None
