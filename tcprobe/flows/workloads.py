"""Find workloads: packaged ones by name, scripts by path, modules by dotted name."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

from msgspec import Struct

import tcprobe
from tcprobe.capture.base import Invocation
from tcprobe.errors import InputError, MissingInput, UsageError
from tcprobe.foreign import input_path


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
