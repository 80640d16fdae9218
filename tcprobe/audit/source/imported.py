"""Other files of the audited tree: what they define is followed where the file that imports it uses it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import Final

from tcprobe.audit.source.kinds import Awaited, Env, Module, Named, SourceValue, Unknown
from tcprobe.audit.source.operators import CHANGING
from tcprobe.audit.source.state import State
from tcprobe.errors import TcprobeError
from tcprobe.source.imports import file_of
from tcprobe.source.source import Readings, Source
from tcprobe.source.values import Known

_MOST_FILES: Final = 48  # other files that the reading of one file takes from
_MOST_PARSED: Final = 128  # files that are kept, for others that import them
_PARSED: Final[dict[str, tuple[tuple[int, int] | None, Source]]] = {}
_MOST_LOADING: Final = 12  # variables that wait for one another, from file to file
_DEFINES: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_INSIDE: Final = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def module_of(p: State, name: str, importing: str) -> Module | None:
    """Return a module by its name as a file imports it; None where it is no file of the tree."""
    path = file_of(name, importing, p.tree)
    if path is None or path == p.source.path:
        return None
    if path not in p.modules:
        if len(p.modules) >= _MOST_FILES:
            return None
        try:
            source = _parsed(path, p.tree)
        except TcprobeError:
            return None
        env = Env(home=source)
        env.vars["__name__"] = Known(name.rpartition(".")[2])
        env.load = _Loader(p, env, source).load
        p.modules[path] = Module(path, env, partial(_member, p, path))
    return p.modules[path]


def taken_from(p: State, node: ast.ImportFrom, alias: ast.alias) -> SourceValue:
    """Return what ``from module import name`` binds, of another file once it is read."""
    module, name, importing = "." * node.level + (node.module or ""), alias.name, p.here.path
    inner = f"{module}{name}" if module.endswith(".") else f"{module}.{name}"
    if file_of(module, importing, p.tree) is not None or file_of(inner, importing, p.tree) is not None:
        return Awaited(partial(_taken, p, p.here, node, alias, (module, inner)))
    return _of_another(name) if module.startswith(".") else Named(inner)


def _taken(p: State, home: Source, node: ast.ImportFrom, alias: ast.alias, paths: tuple[str, str]) -> SourceValue:
    handed_on = home.names.imported(node, alias.asname or alias.name)
    if handed_on:
        return Named(handed_on)
    whole = module_of(p, paths[0], home.path)
    found = whole.env.find(alias.name) if whole is not None else None
    return found or module_of(p, paths[1], home.path) or _of_another(alias.name)


def _member(p: State, path: str, name: str) -> SourceValue:
    found = p.modules[path].env.find(name)
    if found is None and path.endswith("__init__.py"):
        found = module_of(p, f".{name}", path)
    return found or _of_another(name)


def _of_another(name: str) -> Unknown:
    return Unknown(f"{name} comes from another file")


def starred(p: State, home: Source, name: str) -> SourceValue | None:
    """Return what a file's ``from module import *`` binds to a name; None where that is no file of the tree."""
    for module in reversed(home.walk.stars) if not name.startswith("_") else ():
        whole = module_of(p, module, home.path)
        found = whole.env.find(name) if whole is not None else None
        if found is not None:
            return found
    return None


class _Loader:
    """Follows the statements of one module, each when a variable that it sets is asked for."""

    def __init__(self, p: State, env: Env, home: Source) -> None:
        self._p = p
        self._env = env
        self._home = home
        self._running: int | None = None  # the statement that is followed now, by its index
        self._followed: set[int] = set()

    def load(self, name: str) -> SourceValue | None:
        """Return a variable of the module; None where nothing sets it."""
        needed = self._needed(name)
        if name in self._home.walk.module.shared:
            return Unknown(f"{name} is set in a function of another file")
        if self._running is not None and any(index > self._running for index in needed):
            return Unknown(f"{name} changes in another file")
        around = self._running
        for index in needed:
            if index not in self._followed:
                self._followed.add(index)
                self._running = index
                self._run(self._home.tree.body[index])
        self._running = around
        return self._env.find(name) if name in self._env.vars else starred(self._p, self._home, name)

    def _run(self, statement: ast.stmt) -> None:
        """Follow a statement of the module, as an import runs it: under no condition or doubt of its place."""
        self._p.loading += 1
        if self._p.loading <= _MOST_LOADING:
            policy = "float32" if self._p.policy == "float32" else None
            with self._p.being(env=self._env, policy=policy, conditions=0, doubts=[], inner=0, aside=False):
                self._p.run([statement])
        self._p.loading -= 1

    def _needed(self, name: str) -> list[int]:
        """Return the statements that set a variable, and those that set others which they set, in their order."""
        sets, setting = _statements(self._home)
        names, found = [name], set[int]()
        for one in names:
            for index in setting.get(one, ()):
                if index not in found:
                    found.add(index)
                    names += sets[index]
        return sorted(found)


@lru_cache(maxsize=_MOST_PARSED)
def _statements(source: Source) -> tuple[list[list[str]], dict[str, list[int]]]:
    """Return the variables that each statement of a module sets or changes, and the statements by variable."""
    sets = [list(dict.fromkeys(_set_by(statement))) for statement in source.tree.body]
    setting: dict[str, list[int]] = {}
    for index, names in enumerate(sets):
        for name in names:
            setting.setdefault(name, []).append(index)
    return sets, setting


def _set_by(statement: ast.stmt) -> Iterator[str]:
    """Yield the variables of the module that a statement sets or changes in place."""
    pending: list[ast.AST] = [statement]
    while pending:
        node = pending.pop()
        if isinstance(node, _DEFINES):
            yield node.name
            continue
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from (alias.asname or alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.value, ast.Name):
            changes = isinstance(node, ast.Attribute) and node.attr in CHANGING
            yield from [node.value.id] if changes or isinstance(node.ctx, ast.Store) else []
        if not isinstance(node, _INSIDE):
            pending.extend(ast.iter_child_nodes(node))


def parsed_before(path: str, tree: str | None) -> Source | None:
    """Return a file that was parsed because another imports it; None where it was not, or has changed since."""
    found = _PARSED.get(path)
    same = found is not None and found[0] == _stamp(path) and found[1].folder == tree
    return found[1] if found is not None and same else None


def _parsed(path: str, tree: str | None) -> Source:
    """Return a file parsed, kept for others that import it."""
    source = parsed_before(path, tree)
    if source is None:
        source = Source.read(path, _not_followed, tree)
        while len(_PARSED) >= _MOST_PARSED:
            del _PARSED[next(iter(_PARSED))]
        _PARSED[path] = _stamp(path), source
    else:
        _PARSED[path] = _PARSED.pop(path)  # the last to be dropped
    return source


def _stamp(path: str) -> tuple[int, int] | None:
    try:
        now = Path(path).stat()
    except OSError:
        return None
    return now.st_mtime_ns, now.st_size


def _not_followed(source: Source) -> Readings:
    raise LookupError(f"{source.path} is followed only where others import it")
