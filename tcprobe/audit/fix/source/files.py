"""The files that may be edited: each is walked once, and looked at once from every side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tcprobe.audit.fix.source.shapes import StatedShapes
from tcprobe.audit.fix.source.tree import FileTree
from tcprobe.audit.fix.source.units import Units
from tcprobe.audit.fix.source.uses import Uses

if TYPE_CHECKING:
    from tcprobe.source.source import Source


class Files:
    """The files that may be edited, by absolute path.

    Attributes:
        sources: their contents.
    """

    def __init__(self, sources: Mapping[str, Source]) -> None:
        self.sources = sources
        self._trees: dict[str, FileTree] = {}
        self._shapes: dict[str, StatedShapes] = {}
        self._units: dict[str, Units] = {}
        self._uses: dict[str, Uses] = {}

    def tree(self, path: str) -> FileTree:
        """Return the nodes of a file."""
        if path not in self._trees:
            self._trees[path] = FileTree(self.sources[path])
        return self._trees[path]

    def shapes(self, path: str) -> StatedShapes:
        """Return the sizes that a file tells by hand."""
        if path not in self._shapes:
            self._shapes[path] = StatedShapes(self.tree(path))
        return self._shapes[path]

    def units(self, path: str) -> Units:
        """Return the functions and classes at the top of a file."""
        if path not in self._units:
            self._units[path] = Units(self.tree(path))
        return self._units[path]

    def uses(self, path: str) -> Uses:
        """Return the uses of a file's literals."""
        if path not in self._uses:
            others = [self.tree(other) for other in self.sources if other != path]
            self._uses[path] = Uses(self.tree(path), others)
        return self._uses[path]
