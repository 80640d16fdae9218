"""Runs the workload as Python itself would: a `__main__` of its own, its argv, path, file name and traceback.

A hook is called right after a module has been imported, without importing anything itself.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import signal
import sys
import types
from importlib.machinery import PathFinder, SourceFileLoader
from typing import Any, Callable, Dict, List, Optional, Set

from ..core import lines
from ..core.framework import Hook
from ..core.gaps import Gaps


class AfterImport:
    """A finder that stands first in `sys.meta_path` and lets all others find.

    Args:
        hooks: module name to what is called with the module once its body has run.
        gaps: takes what a hook raises; the import goes on.
    """

    def __init__(self, hooks: Dict[str, Hook], gaps: Gaps) -> None:
        self._hooks = dict(hooks)
        self._gaps = gaps
        self._searching: Set[str] = set()

    def install(self) -> None:
        """Start to watch; modules that are imported already are hooked at once."""
        for name in [n for n in self._hooks if n in sys.modules]:
            self._run(name, sys.modules[name])
        sys.meta_path.insert(0, self)

    def remove(self) -> None:
        """Stop to watch."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(self, name: str, _path: Any = None, _target: Any = None) -> Any:
        """Return the spec that the other finders give, its loader made to call the hook; None for other modules."""
        if name not in self._hooks or name in self._searching:
            return None
        self._searching.add(name)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._searching.discard(name)
        return self._gaps.run("import of " + name, lambda: self._watch(name, spec), spec)

    def _watch(self, name: str, spec: Any) -> Any:
        loader = None if spec is None else spec.loader
        execute: Optional[Hook] = getattr(loader, "exec_module", None)
        if loader is None or execute is None:
            return spec

        def exec_module(module: Any) -> None:
            loader.__dict__.pop("exec_module", None)
            execute(module)
            self._run(name, module)

        loader.exec_module = exec_module
        return spec

    def _run(self, name: str, module: Any) -> None:
        hook = self._hooks.pop(name, None)
        if hook is not None:
            self._gaps.run("hooks of " + name, lambda: hook(module))
        if not self._hooks:
            self.remove()


class ByScript:
    """A finder that stands last in `sys.meta_path`: takes relative folders of `sys.path` from the script's own folder.

    Python takes them from the folder that it was started in, which for such scripts is mostly that.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def install(self) -> None:
        """Find what all others do not."""
        sys.meta_path.append(self)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Return the spec of a module of no package; None where it lies in no such folder."""
        if path is not None:
            return None
        relative = [entry for entry in sys.path if isinstance(entry, str) and entry and not os.path.isabs(entry)]
        return PathFinder.find_spec(name, [os.path.join(self._folder, entry) for entry in relative], target)


def execute(source: bytes, path: str, names: Dict[str, Any]) -> None:
    """Execute a file in the namespace `names`."""
    exec(compile(source, path, "exec", dont_inherit=True), names)


def run_script(kind: str, name: str, argv: List[str], source: Optional[str] = None) -> None:
    """Run a script or module to its end; what it raises comes through, `SystemExit` included.

    Args:
        kind: ``script`` (name is a path) or ``module`` (as after ``python -m``).
        name: the path or the dotted name.
        argv: its arguments, without argv[0].
        source: file whose text runs in place of the script's own, with its path and lines; None for that itself.
    """
    start = _module(name, argv) if kind == "module" else _script(name, argv, source)
    try:
        start()
    except SystemExit:
        raise
    except BaseException:
        lines.clean_uncaught()
        raise


def exit_code(error: BaseException) -> int:
    """Return the exit code of a process whose main module raised `error`."""
    if isinstance(error, KeyboardInterrupt):
        return 128 + signal.SIGINT
    if not isinstance(error, SystemExit):
        return 1
    code = error.code
    return 0 if code is None else code & 0xFF if isinstance(code, int) else 1


def new_module(path: str) -> Optional[types.ModuleType]:
    """Return the module that the import of a file makes, not executed yet; None if it is no Python file.

    It has its dotted name where it lies in a package.
    """
    folder, parts = os.path.dirname(path), [os.path.splitext(os.path.basename(path))[0]]
    while os.path.exists(os.path.join(folder, "__init__.py")):
        folder, name = os.path.split(folder)
        parts.insert(0, name)
    sys.path[0] = folder
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    sys.argv = [path]
    if len(parts) > 1:
        importlib.import_module(".".join(parts[:-1]))
    name = ".".join(parts)
    name = "_" + name if name in sys.modules else name  # a file called like a module that others use
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        return None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    return module


def unshadow(folder: str, before: Set[str]) -> None:
    """Forget modules that the probe has imported and that the script's own folder has too.

    A script beside its own ``json.py`` must get its own; without the probe it would stand first.
    """
    for name in {module.partition(".")[0] for module in set(sys.modules) - before}:
        own = os.path.join(folder, name)
        if os.path.exists(own + ".py") or os.path.isdir(own):
            for module in [m for m in sys.modules if m == name or m.startswith(name + ".")]:
                del sys.modules[module]


def folder_of(kind: str, name: str) -> str:
    """Return what Python would put first into `sys.path`."""
    return os.getcwd() if kind == "module" else os.path.dirname(os.path.realpath(name))


def set_path(kind: str, name: str) -> None:
    """Put the workload's folder where the probe's own stands in `sys.path`."""
    if getattr(sys.flags, "safe_path", False):
        del sys.path[0]
    else:
        sys.path[0] = folder_of(kind, name)


def _fresh(**names: Any) -> types.ModuleType:
    """Install an empty `__main__`, as the interpreter has it when it starts."""
    module = types.ModuleType("__main__")
    module.__dict__.update(__builtins__=sys.modules["builtins"], __annotations__={}, **names)
    sys.modules["__main__"] = module
    return module


def _module(name: str, argv: List[str]) -> Callable[[], None]:
    import runpy

    sys.argv = ["-m", *argv]
    _fresh()
    start: Any = runpy._run_module_as_main  # type: ignore[attr-defined]
    return lambda: start(name) and None


def _script(name: str, argv: List[str], changed: Optional[str]) -> Callable[[], None]:
    sys.argv = [name, *argv]
    # Python 3.9 made the script's file name absolute.
    path = os.path.abspath(name) if sys.version_info >= (3, 9) else name
    loader = SourceFileLoader("__main__", path)
    module = _fresh(__file__=path, __cached__=None, __loader__=loader)
    with open(changed or path, "rb") as file:
        source = file.read()
    return lambda: execute(source, path, module.__dict__)
