"""CallTable with their canonical names, and arguments under the names of the parameters."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from functools import cached_property

from msgspec import Struct

from tcprobe.keras.catalogue import positional
from tcprobe.schema.place import Place
from tcprobe.source.names import DottedNames
from tcprobe.source.routines import Routines
from tcprobe.source.scopes import FunctionNode
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
    # canonical dotted name (``keras.layers.Dense``, ``tensorflow.cast``); of a function or class of the file its own
    # name
    name: str
    # by name, those of a functools.partial included; ``*args`` and ``**kwargs`` are not among them
    arguments: Mapping[str, Argument]
    place: Place  # of the whole call


class CallTable:
    """The calls of one file."""

    def __init__(
        self,
        walk: Walk,
        names: DottedNames,
        routines: Routines,
        known: Callable[[ast.expr], Known | None],
        place: Callable[[ast.AST], Place],
    ) -> None:
        self._walk = walk
        self._names = names
        self._routines = routines
        self._known = known
        self._place = place
        self._made: dict[ast.Call, Call] = {}

    @cached_property
    def named(self) -> tuple[Call, ...]:
        """CallTable with a canonical name."""
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
        name, written = self._names.canonical(node.func), self._names.written(node.func)
        own = self._own(node) if name is None else None
        parameters = positional(written) if written else _parameters(*own) if own else ()
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
        return Call(node, name or (ast.unparse(node.func) if own else ""), arguments, self._place(node))

    def _argument(self, name: str, node: ast.expr) -> Argument:
        return Argument(name, node, self._place(node), self._known)

    def _own(self, node: ast.Call) -> tuple[FunctionNode, int] | None:
        """Return the one function of the file that a call of a name reaches."""
        found = self._routines.targets(node.func) if isinstance(node.func, ast.Name) else []
        return found[0] if len(found) == 1 else None


def _parameters(function: FunctionNode, skipped: int) -> tuple[str, ...]:
    positional_ = [*function.args.posonlyargs, *function.args.args]
    return tuple(arg.arg for arg in positional_[skipped:])
