"""Calls with their canonical names, and arguments under the names of the parameters."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from functools import cached_property

from msgspec import Struct

from tcprobe.keras.catalogue import positional
from tcprobe.schema.model import Place
from tcprobe.source.names import DottedNames
from tcprobe.source.values import Known
from tcprobe.source.walk import Walk


class Argument(Struct, frozen=True):
    """One argument of a call.

    Attributes:
        name: the parameter, as Keras calls it; its position ("0") where that is not known.
        node: the expression.
        place: where it stands.
        known: its value, None where the file alone does not decide it.
    """

    name: str
    node: ast.expr
    place: Place
    _known: Callable[[ast.expr], Known | None]

    @property
    def known(self) -> Known | None:
        return self._known(self.node)


class Call(Struct, frozen=True):
    """One call."""

    node: ast.Call  # the call
    name: str  # canonical dotted name (``keras.layers.Dense``, ``tensorflow.cast``); empty where it is not known
    # by name, those of a functools.partial included; ``*args`` and ``**kwargs`` are not among them
    arguments: Mapping[str, Argument]
    place: Place  # of the whole call


class CallTable:
    """The calls of one file."""

    def __init__(
        self,
        walk: Walk,
        names: DottedNames,
        known: Callable[[ast.expr], Known | None],
        place: Callable[[ast.AST], Place],
    ) -> None:
        self._walk = walk
        self._names = names
        self._known = known
        self._place = place
        self._made: dict[ast.Call, Call] = {}

    @cached_property
    def named(self) -> tuple[Call, ...]:
        """Those with a canonical name, in the order of their places."""
        calls = (self.of(node) for node in self._walk.calls if self._names.written(node.func) is not None)
        return tuple(sorted(calls, key=lambda c: (c.place.line, c.place.column)))

    def of(self, node: ast.Call) -> Call:
        """Return one call."""
        if node not in self._made:
            self._made[node] = self._make(node)
        return self._made[node]

    def at(self, line: int, class_name: str | None) -> Call | None:
        """Return the call on a line; None where there is none or several start there."""
        spanning = [self.of(node) for node in self._by_line.get(line, ())]
        found = [c for c in spanning if c.name and (class_name is None or c.name.rpartition(".")[2] == class_name)]
        starting = [c for c in found if c.place.line == line]
        if starting:
            return starting[0] if len(starting) == 1 else None
        found.sort(key=lambda c: ((c.place.end_line or c.place.line) - c.place.line, -c.place.line))
        return found[0] if found else None

    @cached_property
    def _by_line(self) -> dict[int, list[ast.Call]]:
        lines: dict[int, list[ast.Call]] = {}
        for node in self._walk.calls:
            for line in {node.lineno, *range(node.lineno, min(node.end_lineno or node.lineno, node.lineno + 20) + 1)}:
                lines.setdefault(line, []).append(node)
        return lines

    def _make(self, node: ast.Call) -> Call:
        written = self._names.written(node.func)
        parameters = positional(written) if written else ()
        partial = self._names.partial_of(node.func)
        arguments = {
            keyword.arg: self._argument(keyword.arg, keyword.value)
            for keyword in (partial.keywords if partial is not None else ())
            if keyword.arg is not None
        }
        for index, value in enumerate(node.args):
            if isinstance(value, ast.Starred):
                break
            key = parameters[index] if index < len(parameters) else str(index)
            arguments[key] = self._argument(key, value)
        for keyword in node.keywords:
            if keyword.arg is not None:
                arguments[keyword.arg] = self._argument(keyword.arg, keyword.value)
        return Call(node, self._names.canonical(node.func) or "", arguments, self._place(node))

    def _argument(self, name: str, node: ast.expr) -> Argument:
        return Argument(name, node, self._place(node), self._known)
