"""Which file of the audited tree a module name stands for, by names of files alone; nothing is imported."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

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
        An absolute path: ``blocks.py`` or ``blocks/__init__.py``. None where the module is not part of the tree: of
        another package, a folder without ``__init__.py``, above the tree, or a file that imports itself.
    """
    found = _found(module, importing.rpartition("/")[0], tree)
    return found if found != importing else None


@lru_cache(maxsize=4096)
def _found(module: str, folder: str, tree: str | None) -> str | None:
    here, root = Path(folder), Path(tree) if tree else None
    names = module.lstrip(".")
    level = len(module) - len(names)
    parts = names.split(".") if names else []
    if not level and (not parts or parts[0] in _OTHERS):
        return None
    around = _package_of(here)
    inside = [folder for folder in (root, around or here) if folder is not None]
    folders = [_above(here, level - 1)] if level else _searched(here, around, root)
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
