"""The folders that a script adds to ``sys.path``, as far as its own text tells: literals, and paths from its place."""

from __future__ import annotations

import ast
import posixpath
from collections.abc import Iterator
from typing import Final

_FUNCTIONS: Final = frozenset(("join", "abspath", "realpath", "normpath", "fspath", "str", "Path", "PurePath"))
_METHODS: Final = frozenset(("joinpath", "resolve", "absolute"))
"""Both join the paths that they are given; methods are called on the first of them."""
_HERE: Final = frozenset(("getcwd", "cwd"))
"""What Python runs in is not told: scripts that add to their path are mostly run from their own folder."""


def added_folders(tree: ast.Module, path: str) -> tuple[str, ...]:
    """Return the absolute paths of the folders that a file adds to ``sys.path``, in its order, each once.

    Args:
        tree: of the file.
        path: absolute path of the file.
    """
    paths = _Paths(tree, path)
    found = (paths.of(node) for node in _given(tree))
    folder = posixpath.dirname(path)
    return tuple(dict.fromkeys(posixpath.normpath(posixpath.join(folder, one)) for one in found if one is not None))


def _given(tree: ast.Module) -> Iterator[ast.expr]:
    """Yield what is put into ``sys.path``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.AugAssign) and ast.unparse(node.target) == "sys.path":
            yield from _listed(node.value)
        elif isinstance(node, ast.Assign) and "sys.path" in map(ast.unparse, node.targets):
            yield from (one for part in ast.walk(node.value) for one in _listed(part))
        elif isinstance(node, ast.Call) and node.args:
            match ast.unparse(node.func):
                case "sys.path.append" | "site.addsitedir":
                    yield node.args[0]
                case "sys.path.insert" if len(node.args) > 1:
                    yield node.args[1]
                case "sys.path.extend":
                    yield from _listed(node.args[0])


def _listed(node: ast.AST) -> list[ast.expr]:
    return node.elts if isinstance(node, ast.List | ast.Tuple) else []


class _Paths:
    """Evaluates expressions that make a path from that of the file."""

    def __init__(self, tree: ast.Module, path: str) -> None:
        self._path = path
        given = [node for node in ast.walk(tree) if isinstance(node, ast.Assign) and len(node.targets) == 1]
        named = [(node.targets[0].id, node.value) for node in given if isinstance(node.targets[0], ast.Name)]
        self._values: dict[str, list[ast.expr]] = {}
        for name, value in named:
            self._values.setdefault(name, []).append(value)

    def of(self, node: ast.expr, depth: int = 24) -> str | None:
        """Return the path that an expression is; None where the file does not tell."""
        if not depth:
            return None
        match node:
            case ast.Constant(value=str(text)):
                return text
            case ast.Name(id="__file__"):
                return self._path
            case ast.Name(id=name) if len(self._values.get(name, ())) == 1:
                return self.of(self._values[name][0], depth - 1)
            case ast.Attribute(value=value, attr="parent"):
                return self._above(value, 1, depth)
            case ast.Subscript(value=ast.Attribute(value=value, attr="parents"), slice=ast.Constant(value=int(count))):
                return self._above(value, count + 1, depth)
            case ast.BinOp(left=left, op=ast.Add() | ast.Div() as op, right=right):
                return self._joined([left, right], "/" if isinstance(op, ast.Div) else "", depth)
            case ast.JoinedStr(values=values):
                parts = [one.value if isinstance(one, ast.FormattedValue) else one for one in values]
                return self._joined(parts, "", depth)
            case ast.Call(func=ast.Attribute(value=value, attr=name), args=args) if name in _METHODS:
                return self._joined([value, *args], "/", depth)
            case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)) if name in _HERE:
                return posixpath.dirname(self._path)
            case ast.Call(func=ast.Attribute(attr="dirname") | ast.Name(id="dirname"), args=[given]):
                return self._above(given, 1, depth)
            case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), args=args) if name in _FUNCTIONS:
                return self._joined(args, "/", depth)
        return None

    def _above(self, node: ast.expr, count: int, depth: int) -> str | None:
        found = self.of(node, depth - 1)
        for _ in range(count if found is not None else 0):
            found = posixpath.dirname(posixpath.join(".", found or ""))
        return found

    def _joined(self, nodes: list[ast.expr], by: str, depth: int) -> str | None:
        parts = [self.of(node, depth - 1) for node in nodes]
        texts = [part for part in parts if part is not None]
        if not texts or len(texts) < len(parts):
            return None
        return posixpath.join(*texts) if by else "".join(texts)
