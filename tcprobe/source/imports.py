"""Which file of the audited tree a module name stands for, by names of files alone; nothing is imported."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Final

_OTHERS: Final = frozenset(
    ("builtins", "flax", "jax", "keras", "math", "numpy", "sonnet", "tensorflow", "tf_keras", "torch")
)
"""Packages whose names mean what they mean everywhere, also where the tree has a folder of that name."""


@lru_cache(maxsize=4096)
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
    names = module.lstrip(".")
    level = len(module) - len(names)
    parts = tuple(names.split(".")) if names else ()
    if not level and (not parts or parts[0] in _OTHERS):
        return None
    here, root = Path(importing).parent, Path(tree) if tree else None
    around = _package_of(here)
    inside = [folder for folder in (root, around or here) if folder is not None]
    for start in [_above(here, level - 1)] if level else _searched(here, around, root):
        found = _module_in(start, parts) if start is not None else None
        if found is not None and found != Path(importing) and any(found.is_relative_to(f) for f in inside):
            return str(found)
    return None


def _package_of(folder: Path) -> Path | None:
    """Return the outermost package that a folder belongs to; None where it is no package."""
    found = None
    while (folder / "__init__.py").is_file():
        found, folder = folder, folder.parent
    return found


def _above(folder: Path, count: int) -> Path | None:
    """Return the folder so many levels above; None past the top."""
    return folder if not count else folder.parents[count - 1] if count <= len(folder.parents) else None


def _searched(here: Path, around: Path | None, root: Path | None) -> list[Path]:
    """Return the folders in which Python would look for the modules of a file's tree, nearest first.

    A script sees its own folder, a package what lies beside it, both what is installed from the tree.
    """
    found = [around.parent] if around is not None else [here]
    if root is not None and here.is_relative_to(root):
        above = [folder for folder in (here, *here.parents) if folder.is_relative_to(root)]
        found += [*above, *(folder / "src" for folder in above), root.parent]
    found.append(here)
    return list(dict.fromkeys(found))


def _module_in(folder: Path, parts: tuple[str, ...]) -> Path | None:
    """Return the file of a module below a folder; the folder's own ``__init__.py`` where no name is given."""
    path = folder.joinpath(*parts)
    tried = [path.with_name(f"{parts[-1]}.py")] if parts else []
    return next((file for file in (path / "__init__.py", *tried) if file.is_file()), None)
