"""Leave files out by patterns: those of ``exclude`` in pyproject.toml, or of ``--exclude``."""

from __future__ import annotations

import os
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Final


@dataclass(frozen=True, slots=True)
class Exclusion:
    """Patterns of files to leave out, as ruff has them.

    Attributes:
        root: absolute path of the folder that the patterns are relative to.
        patterns: of paths below `root`, or of single names of files and folders; ``*`` stands for slashes too. A
            pattern of a folder leaves out all below it.
        force: leave out a file that the user named, too.
    """

    root: Path
    patterns: tuple[str, ...] = ()
    force: bool = False

    def of_named(self, path: Path) -> bool:
        """Say whether a file is left out although it was named."""
        return self.force and self._matches(path, 0)

    def of_found(self, path: Path, folder: Path) -> bool:
        """Say whether a file found in the folder that was named is left out; folders above that say nothing."""
        return self._matches(path, len(self._below(folder)))

    def _matches(self, path: Path, start: int) -> bool:
        parts = self._below(path)
        paths = ["/".join(parts[: end + 1]) for end in range(len(parts))]
        return any(_matches(paths[n], parts[n], p) for n in range(start, len(parts)) for p in self.patterns)

    def _below(self, path: Path) -> tuple[str, ...]:
        """Return the names of a path from `root` on; from the top of the disk on where it lies elsewhere."""
        whole = Path(os.path.abspath(path))  # noqa: PTH100 - links stay as the user sees them
        return whole.relative_to(self.root).parts if whole.is_relative_to(self.root) else whole.parts


NOTHING: Final = Exclusion(Path("/"))


def _matches(path: str, name: str, pattern: str) -> bool:
    plain = pattern.removeprefix("./").rstrip("/")
    return fnmatch(path, plain) or fnmatch(name, plain.removeprefix("**/"))
