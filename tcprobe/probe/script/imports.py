"""Calls a hook right after a module has been imported, without importing anything itself; finds modules by a script."""

from __future__ import annotations

import importlib.util
import os
import sys
from importlib.machinery import PathFinder
from typing import Any, Dict, Optional, Set

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
