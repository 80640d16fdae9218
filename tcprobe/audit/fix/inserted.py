"""Text that a fix adds beside a layer's call: a layer behind it in a list, the import of its class."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from tcprobe.audit.fix.links import NotCertain
from tcprobe.audit.fix.source.text import line_starts, offsets
from tcprobe.schema.finding import Edit
from tcprobe.schema.place import Place
from tcprobe.schema.statement import say

if TYPE_CHECKING:
    from tcprobe.source.calls import Call
    from tcprobe.source.source import Source

_REST: Final = re.compile(r"(?P<comma>,?)[ \t]*(?:#[^\r\n]*)?(?=[\r\n])")
_SEQUENTIAL: Final = "keras.Sequential"


def in_sequential(source: Source, node: ast.AST, parents: Mapping[ast.AST, ast.AST]) -> bool:
    """Return whether a list is that of a Sequential's layers."""
    outer = parents.get(node)
    if isinstance(outer, ast.keyword):
        outer = parents.get(outer)
    return isinstance(outer, ast.Call) and source.name_of(outer.func) == _SEQUENTIAL


def beside(source: Source, call: Call, name: str) -> tuple[str, tuple[Edit, ...]]:
    """Return how to write a class of layers where a layer's own is written so, and what imports it if nothing does.

    Raises:
        NotCertain: the name stands for something else, or nothing tells where to import it from.
    """
    func = call.node.func
    if isinstance(func, ast.Attribute):
        return f"{ast.unparse(func.value)}.{name}", ()
    written = func.id if isinstance(func, ast.Name) else ""
    imports = [n for n in source.tree.body if isinstance(n, ast.ImportFrom) and (n.module or "").endswith("layers")]
    if any(alias.name == name and alias.asname is None for node in imports for alias in node.names):
        return name, ()
    if any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(source.tree)):
        raise NotCertain(say("name_other", name=name))
    own = [alias for node in imports for alias in node.names if (alias.asname or alias.name) == written]
    if len(own) != 1:
        raise NotCertain(say("name_missing", name=name))
    return name, (insert(source, own[0], f", {name}"),)


def element(source: Source, call: Call, text: str) -> Edit:
    """Return the edit that adds an element to a list behind a call: on a line of its own where the call has one."""
    start, end = offsets(source.place(call.node), line_starts(source.text))
    begin = max(source.text.rfind("\n", 0, start), source.text.rfind("\r", 0, start)) + 1
    before, rest = source.text[begin:start], _REST.match(source.text, end)
    if before.strip() or rest is None:
        return insert(source, call.node, f", {text}")
    first = source.lines[0]
    line_end = first[len(first.rstrip("\r\n")) :]
    if not rest["comma"]:
        return insert(source, call.node, f",{line_end}{before}{text}")
    place = source.place(call.node)
    line, column = (place.end_line or place.line), (place.end_column or place.column) + len(rest[0])
    return Edit(Place(place.file, line, column, line, column), "", f"{line_end}{before}{text},")


def insert(source: Source, node: ast.AST, text: str) -> Edit:
    """Return the edit that adds text behind a node."""
    end = source.place(node)
    line, column = (end.end_line or end.line), (end.end_column or end.column)
    return Edit(Place(end.file, line, column, line, column), "", text)
