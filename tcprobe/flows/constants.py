"""Change constants at the top of a script, in a copy: literals that are assigned once, and nothing else."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path

from tcprobe.errors import UnreadableInput, UsageError
from tcprobe.foreign import read
from tcprobe.source.imports import MOST_BYTES
from tcprobe.source.source import Readings, Source, lines_of

Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda


def with_constants(path: Path, wanted: Sequence[tuple[str, str]]) -> bytes:
    """Return a script with other values of some constants; line numbers stay as they are.

    Args:
        path: the script; it is not changed.
        wanted: names, and their values as Python writes them (``True``, ``0.1``, ``'adam'``).

    Raises:
        UsageError: a value is no literal, or a name is not assigned a literal once, at the top level of the script.
        InputError: the script cannot be read, or is no Python.
    """
    data = read(path, MOST_BYTES)
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        text = data.decode(encoding)
    except (SyntaxError, UnicodeError, LookupError):
        raise UnreadableInput(path, "is not text in its encoding") from None
    tree = Source.parse(text.removeprefix("\ufeff"), str(path), _unread).tree
    edits = [(_literal(tree, path, name), _checked(name, value)) for name, value in wanted]
    lines = [line.encode() for line in lines_of(text)]  # offsets of the syntax tree are of UTF-8
    for node, value in sorted(edits, key=lambda edit: edit[0].lineno, reverse=True):
        first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
        wide = b"(%s" + b"\n" * (last - first) + b")"  # as many lines as it had
        start, end = lines[first][: node.col_offset], lines[last][node.end_col_offset :]
        lines[first : last + 1] = [start + wide % value.encode() + end]
    return b"".join(lines).decode().encode(encoding, "backslashreplace")


def _unread(_: Source) -> Readings:
    raise NotImplementedError  # nobody asks what an expression is


def _checked(name: str, value: str) -> str:
    try:
        literal = _is_literal(ast.parse(value, mode="eval").body)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        literal = False
    if not literal:
        raise UsageError(f"{name}={value}: {value} is no literal of Python", f"text takes quotes: {name}='{value}'")
    return value


def _literal(tree: ast.Module, path: Path, name: str) -> ast.expr:
    """Return the literal that a name is assigned, once."""
    bound: list[ast.Name | ast.alias | ast.Global] = [
        node for node in _of_module(tree) if isinstance(node, ast.Name | ast.alias) and _binds(node, name)
    ]
    bound += [node for node in ast.walk(tree) if isinstance(node, ast.Global) and name in node.names]
    top = {target: value for node in tree.body for target, value in _assigned(node)}
    if len(bound) > 1:
        lines = ", ".join(str(node.lineno) for node in bound)
        raise UsageError(f"{path}: {name} is assigned more than once (lines {lines})", "vary what is assigned once")
    if name not in top:
        near = get_close_matches(name, [each for each, value in top.items() if _is_literal(value)], n=1)
        what = "is not assigned by itself" if bound else "is assigned nowhere"
        hint = f"did you mean {near[0]}?" if near else "name a constant of the script"
        raise UsageError(f"{path}: {name} {what} at the top level", hint)
    if not _is_literal(top[name]):
        given = ast.unparse(top[name])[:60]
        raise UsageError(f"{path}: {name} is assigned no literal, but {given}", "vary a constant of the script")
    return top[name]


def _is_literal(value: ast.expr) -> bool:
    try:
        ast.literal_eval(value)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return False
    return True


def _of_module(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what stands in the scope of the module: all below a node, but what functions and classes hold."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, Scope):
            yield from _of_module(child)


def _binds(node: ast.Name | ast.alias, name: str) -> bool:
    if isinstance(node, ast.alias):
        return (node.asname or node.name.partition(".")[0]) == name
    return node.id == name and not isinstance(node.ctx, ast.Load)


def _assigned(node: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    """Yield the name that a statement assigns a value of its own, and the value."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        yield node.targets[0].id, node.value
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
        yield node.target.id, node.value
