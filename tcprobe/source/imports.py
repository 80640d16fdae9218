"""Which file of the audited tree a module name stands for, by names of files alone; nothing is imported."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import chain
from pathlib import Path
from typing import Final, TypeAlias

from tcprobe.errors import InputError
from tcprobe.foreign import read
from tcprobe.keras.catalogue import canonical_name, public

MOST_BYTES: Final = 256 << 20
"""The largest file that is read: notebooks with the pictures that they show take tens of MB, scripts far less."""
_OTHERS: Final = frozenset(
    ("builtins", "flax", "jax", "keras", "math", "numpy", "sonnet", "tensorflow", "tf_keras", "torch")
)
"""Packages whose names mean what they mean everywhere, also where the tree has a folder of that name."""


def file_of(module: str, importing: str, tree: str | None = None) -> str | None:
    """Return the file that holds a module which a file imports.

    Args:
        module: its name as it is imported, with the dots of a relative import (``mylib.blocks``, ``..layers``, ``.``).
        importing: absolute path of the file that imports it.
        tree: absolute path of the folder that is audited; None where a file was named by itself. Without it the tree
            is the package around that file, or the folder that it lies in.

    Returns:
        An absolute path: ``blocks.py`` or ``blocks/__init__.py``. None where the module is not part of the tree, nor
        in a folder that the file adds to ``sys.path``: of another package, a folder without ``__init__.py``, above the
        tree, or a file that imports itself.
    """
    added = _ADDED.get(importing, ())
    found = _found(module, importing.rpartition("/")[0], tree, added)
    if found is None or found == importing:
        return None
    note_folders(found, added)
    return found


_ADDED: Final[dict[str, tuple[str, ...]]] = {}
"""The folders that files find modules in besides, by the files' paths: ``sys.path`` is one for a whole program."""


def note_folders(path: str, folders: tuple[str, ...]) -> None:
    """Note folders that a file adds to ``sys.path``, or that one that imports it added."""
    if folders:
        _ADDED[path] = tuple(dict.fromkeys((*_ADDED.get(path, ()), *folders)))


@lru_cache(maxsize=32768)
def _found(module: str, folder: str, tree: str | None, added: tuple[str, ...]) -> str | None:
    here, root = Path(folder), Path(tree) if tree else None
    names = module.lstrip(".")
    level = len(module) - len(names)
    parts = names.split(".") if names else []
    if not level and (not parts or parts[0] in _OTHERS):
        return None
    around = _package_of(here)
    own_path = [Path(folder) for folder in added]
    inside = [folder for folder in (root, around or here, *own_path) if folder is not None]
    folders = [_above(here, level - 1)] if level else chain(_searched(here, around, root), own_path)
    found = (_module_in(folder, parts) for folder in folders)
    own = (str(file) for file in found if file is not None and any(file.is_relative_to(f) for f in inside))
    return next(own, None)


@lru_cache(maxsize=1024)
def _package_of(folder: Path) -> Path | None:
    """Return the outermost package that a folder belongs to; None where it is no package."""
    found = None
    while "__init__.py" in _names_in(folder):
        found, folder = folder, folder.parent
    return found


def _above(folder: Path, count: int) -> Path:
    """Return the folder so many levels above; the root of all past the top."""
    return (folder, *folder.parents)[min(count, len(folder.parents))]


def _searched(here: Path, around: Path | None, root: Path | None) -> Iterator[Path]:
    """Yield the folders in which Python would look for the modules of a file's tree, nearest first.

    A script sees its own folder, a package what lies beside it, both what is installed from the tree.
    """
    yield around.parent if around is not None else here
    if root is not None and here.is_relative_to(root):
        above = [folder for folder in (here, *here.parents) if folder.is_relative_to(root)]
        yield from above
        yield from (folder / "src" for folder in above)
        yield root.parent
    yield here


def _module_in(folder: Path, parts: Sequence[str]) -> Path | None:
    """Return the file of a module below a folder; the folder's own ``__init__.py`` where no name is given."""
    for index, part in enumerate(parts):
        names = _names_in(folder)
        if part not in names:
            last = index == len(parts) - 1 and f"{part}.py" in names
            return folder / f"{part}.py" if last else None
        whole, folder = folder, folder / part
        if index == len(parts) - 1 and "__init__.py" not in _names_in(folder):
            return whole / f"{part}.py" if f"{part}.py" in names else None
    return folder / "__init__.py" if "__init__.py" in _names_in(folder) else None


@lru_cache(maxsize=4096)
def _names_in(folder: Path) -> frozenset[str]:
    """Return the names in a folder; none where it cannot be read, or is none."""
    try:
        return frozenset(os.listdir(folder))  # noqa: PTH208 - names, not paths: a folder may hold very many
    except OSError:
        return frozenset()


# What modules of the tree hand on from other packages: the ``keras`` of ``from mylib.backend import keras``. Read from
# their syntax alone, one module at a time: imports, also those of ``try`` and ``if``, and plain aliases.


MOST_MODULES: Final = 8
"""So many modules may pass a name on to one another; what lies deeper is not looked for."""
_OURS: Final = ("keras", "tensorflow")
LONGEST_SOURCE: Final = 2_000_000
"""Characters of Python that are read: a syntax tree of the densest text takes 900 times its bytes of memory."""


Meaning: TypeAlias = str
"""What a name may stand for: something of another package by its dotted name, or a module of the tree by the absolute
path of its file."""
_Imported: TypeAlias = tuple[str, str | None]
"""What an import statement binds: a module, or a name of it."""
_Exports: TypeAlias = tuple[dict[str, list[_Imported | ast.expr]], list[str]]
"""The names that a module binds by imports and aliases, and the modules of its ``import *``."""


_DEFINED: Final = re.compile(r"^(?:async def|def|class) (\w+)", re.MULTILINE)


def is_of_tree(meaning: Meaning) -> bool:
    """Return whether a name stands for a module of the tree."""
    return meaning.startswith("/")


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
        self._modules: dict[str, _Module] = {}  # as they were when this file first asked for them
        self._known: dict[tuple[str, str], frozenset[Meaning]] = {}

    def of_import(self, node: ast.AST, bound: str) -> frozenset[Meaning]:
        """Return what an import statement of the file may bind a name to."""
        return _union(self._of_binding(made, self._importing) for name, made in _bindings(node) if name == bound)

    def starred(self, module: str, name: str) -> frozenset[Meaning]:
        """Return what ``from module import *`` in the file may bind a name to."""
        return self._of_star(module, name, self._importing)

    def attribute(self, of: Iterable[Meaning], name: str) -> frozenset[Meaning]:
        """Return what an attribute of what a name may stand for may be."""
        return _union(self._exported(m, name) if is_of_tree(m) else {f"{m}.{name}"} for m in of)

    def _module(self, module: str, importing: str) -> frozenset[Meaning]:
        file = file_of(module, importing, self._tree)
        return frozenset({file or module} if file is not None or not module.startswith(".") else ())

    def _of_star(self, module: str, name: str, importing: str) -> frozenset[Meaning]:
        found = self._module(module, importing)
        return self.attribute((m for m in found if is_of_tree(m) or public(m, name)), name)

    def _exported(self, file: str, name: str) -> frozenset[Meaning]:
        """Return what a name of a module of the tree may stand for; nothing where the module defines it itself."""
        key = file, name
        if not self._busy and key in self._known:
            return self._known[key]
        if key in self._busy or len(self._busy) >= MOST_MODULES:
            return frozenset()
        self._busy.append(key)
        try:
            found = self._handed_on(file, name) or self._submodule(file, name)
        finally:
            self._busy.pop()
        if not self._busy:  # deeper down it may lack what is being asked for already
            self._known[key] = found
        return found

    def _read(self, file: str) -> _Module:
        if file not in self._modules:
            try:
                stat = Path(file).stat()
                self._modules[file] = _kept(file, stat.st_mtime_ns, stat.st_size)
            except OSError:
                self._modules[file] = _Module(file, 0)
        return self._modules[file]

    def _handed_on(self, file: str, name: str) -> frozenset[Meaning]:
        names, stars = self._read(file).exports(name)
        if name in names:
            return _union(self._of_binding(made, file) for made in names[name])
        return _union(self._of_star(module, name, file) for module in stars)

    def _of_binding(self, made: _Imported | ast.expr, file: str) -> frozenset[Meaning]:
        if isinstance(made, tuple):
            module = self._module(made[0], file)
            return module if made[1] is None else self.attribute(module, made[1])
        if isinstance(made, ast.Attribute):
            return self.attribute(self._of_binding(made.value, file), made.attr)
        return self._exported(file, made.id) if isinstance(made, ast.Name) else frozenset()

    def _submodule(self, file: str, name: str) -> frozenset[Meaning]:
        found = file_of(f".{name}", file, self._tree) if file.endswith("/__init__.py") else None
        return frozenset({found} if found is not None else ())


def _union(found: Iterable[Iterable[Meaning]]) -> frozenset[Meaning]:
    return frozenset(meaning for one in found for meaning in one)


def one_name(meanings: Iterable[Meaning]) -> str | None:
    """Return the dotted name that meanings have in common; None where they differ or are no other package's.

    A library that runs on Keras and on something else as well is read as the Keras library that it is.
    """
    names = sorted(m for m in meanings if not is_of_tree(m))
    ours = [name for name in names if canonical_name(name).partition(".")[0] in _OURS]
    forms = {canonical_name(name) for name in ours or names}
    return (ours or names)[0] if len(forms) == 1 else None


class _Module:
    """What a module hands on, as far as it is asked for."""

    def __init__(self, file: str, size: int) -> None:
        self._text = _text_of(file) if size <= LONGEST_SOURCE else ""
        self._answers: dict[str, _Exports] = {}

    def exports(self, name: str) -> _Exports:
        """Return what it hands on, where it may hand on this name: not one that it defines or never mentions."""
        if name not in self._answers:
            mentioned = name in self._text or self._stars
            self._answers[name] = self._exports if mentioned and name not in self._defined else ({}, [])
        return self._answers[name]

    @cached_property
    def _stars(self) -> bool:
        return "import *" in self._text

    @cached_property
    def _defined(self) -> frozenset[str]:
        return frozenset(_DEFINED.findall(self._text))

    @cached_property
    def _exports(self) -> _Exports:
        names: dict[str, list[_Imported | ast.expr]] = {}
        stars: list[str] = []
        try:
            todo: list[ast.AST] = [*ast.parse(self._text).body]
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            todo = []
        for node in todo:
            if isinstance(node, ast.If | ast.Try | ast.With | ast.ExceptHandler):  # whichever way its conditions go
                todo += ast.iter_child_nodes(node)
            if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
                stars.append("." * node.level + (node.module or ""))
            for name, made in _bindings(node):
                names.setdefault(name, []).append(made)
        return names, stars


@lru_cache(maxsize=256)
def _kept(file: str, _modified: int, size: int) -> _Module:
    return _Module(file, size)


def _text_of(file: str) -> str:
    try:
        return read(Path(file), MOST_BYTES).decode("utf-8", "replace")
    except InputError:
        return ""


def _bindings(node: ast.AST) -> Iterator[tuple[str, _Imported | ast.expr]]:
    """Yield the names that an import or an alias binds, each with what it binds them to."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            top = alias.name.partition(".")[0]
            yield (alias.asname, (alias.name, None)) if alias.asname else (top, (top, None))
    elif isinstance(node, ast.ImportFrom):
        for alias in node.names:
            yield alias.asname or alias.name, ("." * node.level + (node.module or ""), alias.name)
    elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Name | ast.Attribute):
        yield from ((target.id, node.value) for target in node.targets if isinstance(target, ast.Name))
