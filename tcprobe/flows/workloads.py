"""Find workloads: packaged ones by name, scripts by path, modules by dotted name; and change constants of a script."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path

from msgspec import Struct

import tcprobe
from tcprobe.capture.base import Invocation
from tcprobe.errors import InputError, MissingInput, UnreadableInput, UsageError
from tcprobe.foreign import input_path, read
from tcprobe.source.imports import MOST_BYTES
from tcprobe.source.source import Readings, Source, lines_of


class Workload(Struct, frozen=True):
    """One packaged workload."""

    name: str  # what to type
    path: Path  # its script
    description: str  # first line of its docstring

    def takes(self, option: str) -> bool:
        """Say whether the script defines an option (``--xla``)."""
        return f'"{option}"' in self.path.read_text(encoding="utf-8")


def packaged_workloads() -> tuple[Workload, ...]:
    """Return the workloads that come with tcprobe, ordered by name."""
    return tuple(Workload(p.stem, p, _description(p)) for p in _scripts())


def _scripts() -> list[Path]:
    folder = Path(tcprobe.__file__).resolve().parent.parent / "workloads"
    return sorted(p for p in folder.glob("*.py") if not p.name.startswith("_"))


def _description(path: Path) -> str:
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return text.partition("\n")[0]


def packaged(name: str) -> Workload | None:
    """Return the packaged workload of this name; None if there is none."""
    return next((Workload(name, path, _description(path)) for path in _scripts() if path.stem == name), None)


def find_workload(words: Sequence[str]) -> tuple[Invocation, Workload | None]:
    """Find the workload that the words after tcprobe's own options name.

    Args:
        words: a packaged name, a path or ``-m module``, and the workload's own arguments.

    Returns:
        The invocation, and the packaged workload if it is one.

    Raises:
        UsageError: no workload is given, or there is none of this name; the hint offers the nearest.
        MissingInput: the script does not exist.
        InputError: the path is a folder.
    """
    if not words:
        raise UsageError("no workload given", f"{_listed()}; or a script: tcprobe profile train.py")
    first, *rest = words
    if first == "-m":
        return _module(rest), None
    found = packaged(first)
    if found is not None:
        return Invocation("script", str(found.path), tuple(rest), found.name), found
    return _script(first, rest), None


def _module(words: list[str]) -> Invocation:
    if not words or words[0].startswith("-"):
        raise UsageError("-m needs the name of a module", "as in: tcprobe profile -m package.train --epochs 3")
    return Invocation("module", words[0], tuple(words[1:]), words[0])


def _script(name: str, rest: list[str]) -> Invocation:
    path = input_path(name)
    if path.is_dir():
        raise InputError(path, "is a folder, not a script", "name the script in it")
    if path.is_file():
        return Invocation("script", str(path), tuple(rest), path.stem)
    if path.exists():
        raise InputError(path, "is no regular file, so no script", "write it to a file first")
    if path.suffix == ".py" or len(path.parts) > 1:
        raise MissingInput(path, "no such script", _near_file(path))
    names = [w.name for w in packaged_workloads()]
    near = get_close_matches(name, names, n=1)
    meant = f"did you mean {near[0]}? " if near else ""
    raise UsageError(f"no workload called {name!r}, and no file of that name", f"{meant}{_listed()}; or give a script")


def _near_file(path: Path) -> str:
    try:
        scripts = sorted(p.name for p in path.parent.glob("*.py"))
    except OSError:
        scripts = []
    near = get_close_matches(path.name, scripts, n=1)
    return f"did you mean {path.parent / near[0]}?" if near else _listed()


def _listed() -> str:
    return f"workloads that come with tcprobe: {', '.join(w.name for w in packaged_workloads())}"


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
