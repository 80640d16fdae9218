"""What modules of the audited tree hand on from other packages: the ``keras`` of ``from mylib.backend import keras``.

Read from their syntax alone, one module at a time: imports, also those of ``try`` and ``if``, and plain aliases.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Final, TypeAlias

from tcprobe.errors import InputError
from tcprobe.foreign import read
from tcprobe.keras.names import canonical_name, public
from tcprobe.source.imports import MOST_BYTES, file_of

MOST_MODULES: Final = 8
"""So many modules may pass a name on to one another; what lies deeper is not looked for."""
_OURS: Final = ("keras", "tensorflow")
LONGEST_SOURCE: Final = 2_000_000
"""Characters of Python that are read: a syntax tree of the densest text takes 900 times its bytes of memory."""


@dataclass(frozen=True, slots=True)
class TreeModule:
    """A module of the tree, by the absolute path of its file."""

    path: str


Meaning: TypeAlias = str | TreeModule
"""What a name may stand for: something of another package by its dotted name, or a module of the tree."""


@dataclass(frozen=True, slots=True)
class _Imported:
    """What an import statement binds: a module, or a name of it."""

    module: str
    name: str | None = None


@dataclass(slots=True)
class _Exports:
    """The names that a module binds by imports and aliases, and the modules of its ``import *``."""

    names: dict[str, list[_Imported | ast.expr]] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)


class Reexports:
    """Names of modules, as one file of a tree imports them.

    Args:
        importing: absolute path of the file.
        tree: absolute path of the folder that is audited; None where the file was named by itself.
    """

    def __init__(self, importing: str, tree: str | None = None) -> None:
        self._importing = importing
        self._tree = tree
        self._busy: list[tuple[str, str]] = []

    def of_import(self, node: ast.AST, bound: str) -> frozenset[Meaning]:
        """Return what an import statement of the file may bind a name to."""
        found = [made for name, made in _bindings(node) if name == bound]
        return self._union(self._of_imported(one, self._importing) for one in found if isinstance(one, _Imported))

    def starred(self, module: str, name: str) -> frozenset[Meaning]:
        """Return what ``from module import *`` in the file may bind a name to."""
        return self._of_star(module, name, self._importing)

    def attribute(self, of: Iterable[Meaning], name: str) -> frozenset[Meaning]:
        """Return what an attribute of what a name may stand for may be."""
        return self._union(self._exported(m.path, name) if isinstance(m, TreeModule) else {f"{m}.{name}"} for m in of)

    def _of_imported(self, made: _Imported, importing: str) -> frozenset[Meaning]:
        module = self._module(made.module, importing)
        return module if made.name is None else self.attribute(module, made.name)

    def _module(self, module: str, importing: str) -> frozenset[Meaning]:
        file = file_of(module, importing, self._tree)
        if file is not None:
            return frozenset({TreeModule(file)})
        return frozenset() if module.startswith(".") else frozenset({module})

    def _of_star(self, module: str, name: str, importing: str) -> frozenset[Meaning]:
        found = self._module(module, importing)
        inside = [m for m in found if isinstance(m, TreeModule) or public(m, name)]
        return self.attribute(inside, name)

    def _exported(self, file: str, name: str) -> frozenset[Meaning]:
        """Return what a name of a module of the tree may stand for; nothing where the module defines it itself."""
        key = file, name
        if key in self._busy or len(self._busy) >= MOST_MODULES:
            return frozenset()
        self._busy.append(key)
        try:
            return self._handed_on(file, name) or self._submodule(file, name)
        finally:
            self._busy.pop()

    def _handed_on(self, file: str, name: str) -> frozenset[Meaning]:
        exports = _exports_of(file, name)
        if exports is None:
            return frozenset()
        if name in exports.names:
            return self._union(self._of_binding(made, file) for made in exports.names[name])
        return self._union(self._of_star(module, name, file) for module in exports.stars)

    def _of_binding(self, made: _Imported | ast.expr, file: str) -> frozenset[Meaning]:
        if isinstance(made, _Imported):
            return self._of_imported(made, file)
        if isinstance(made, ast.Attribute):
            return self.attribute(self._of_binding(made.value, file), made.attr)
        return self._exported(file, made.id) if isinstance(made, ast.Name) else frozenset()

    def _submodule(self, file: str, name: str) -> frozenset[Meaning]:
        if Path(file).name != "__init__.py":
            return frozenset()
        found = file_of(f".{name}", file, self._tree)
        return frozenset({TreeModule(found)}) if found is not None else frozenset()

    @staticmethod
    def _union(found: Iterable[Iterable[Meaning]]) -> frozenset[Meaning]:
        return frozenset(meaning for one in found for meaning in one)


def one_name(meanings: Iterable[Meaning]) -> str | None:
    """Return the dotted name that meanings have in common; None where they differ or are no other package's.

    A library that runs on Keras and on something else as well is read as the Keras library that it is.
    """
    names = sorted(m for m in meanings if isinstance(m, str))
    ours = [name for name in names if canonical_name(name).partition(".")[0] in _OURS]
    forms = {canonical_name(name) for name in ours or names}
    return (ours or names)[0] if len(forms) == 1 else None


def _exports_of(file: str, name: str) -> _Exports | None:
    """Return what a module hands on, where it may hand on this name: not one that it defines or never mentions."""
    try:
        stat = Path(file).stat()
    except OSError:
        return None
    stamp = stat.st_mtime_ns, stat.st_size
    text = _text(file, stamp)
    if name not in text and "import *" not in text:
        return None
    if re.search(rf"^(?:async def|def|class) {re.escape(name)}\b", text, re.MULTILINE):
        return None
    return _exports(file, stamp)


@lru_cache(maxsize=64)
def _text(file: str, stamp: tuple[int, int]) -> str:
    if stamp[1] > LONGEST_SOURCE:
        return ""
    try:
        return read(Path(file), MOST_BYTES).decode("utf-8", "replace")
    except InputError:
        return ""


@lru_cache(maxsize=512)
def _exports(file: str, stamp: tuple[int, int]) -> _Exports:
    try:
        tree = ast.parse(_text(file, stamp))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _Exports()
    found = _Exports()
    for node in _statements(tree.body):
        if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
            found.stars.append("." * node.level + (node.module or ""))
        for name, made in _bindings(node):
            found.names.setdefault(name, []).append(made)
    return found


def _statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements that a module runs, whichever way its conditions go."""
    for node in body:
        yield node
        if isinstance(node, ast.If | ast.Try | ast.With):
            handlers = node.handlers if isinstance(node, ast.Try) else []
            rest = [] if isinstance(node, ast.With) else node.orelse
            final = node.finalbody if isinstance(node, ast.Try) else []
            yield from _statements([*node.body, *(s for h in handlers for s in h.body), *rest, *final])


def _bindings(node: ast.AST) -> Iterator[tuple[str, _Imported | ast.expr]]:
    """Yield the names that an import or an alias binds, each with what it binds them to."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            top = alias.name.partition(".")[0]
            yield (alias.asname, _Imported(alias.name)) if alias.asname else (top, _Imported(top))
    elif isinstance(node, ast.ImportFrom):
        for alias in node.names:
            yield alias.asname or alias.name, _Imported("." * node.level + (node.module or ""), alias.name)
    elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Name | ast.Attribute):
        yield from ((target.id, node.value) for target in node.targets if isinstance(target, ast.Name))
