"""CallTable with their canonical names, and arguments under the names of the parameters."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from tcprobe.keras.names import positional
from tcprobe.schema.place import Place
from tcprobe.source.callsites import CallSites
from tcprobe.source.names import DottedNames
from tcprobe.source.scopes import FunctionNode, Scope
from tcprobe.source.values import Known
from tcprobe.source.walk import Walk


class Valuer(Protocol):
    """What tells the values of expressions."""

    def known(self, node: ast.expr) -> Known | None:
        """Return the value of an expression; None where the file alone does not decide it."""


@dataclass(frozen=True, slots=True)
class Argument:
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
    _values: Valuer

    @property
    def known(self) -> Known | None:
        return self._values.known(self.node)


@dataclass(frozen=True, slots=True)
class Call:
    """One call.

    Attributes:
        node: the call.
        name: canonical dotted name (``keras.layers.Dense``, ``tensorflow.cast``); of a function or class of the file
            its own name.
        arguments: by name, those of a functools.partial included; ``*args`` and ``**kwargs`` are not among them.
        place: of the whole call.
        scope: qualified name of the function or class around it; empty in the module.
        written: the name as it was imported (``tensorflow.keras.layers.Dense``).
        spread: whether it passes ``*args`` or ``**kwargs``, so that `arguments` may lack some.
    """

    node: ast.Call
    name: str
    arguments: Mapping[str, Argument]
    place: Place
    scope: str
    written: str = ""
    spread: bool = False


class CallTable:
    """The calls of one file."""

    def __init__(
        self, walk: Walk, names: DottedNames, sites: CallSites, values: Valuer, place: Callable[[ast.AST], Place]
    ) -> None:
        self._walk = walk
        self._names = names
        self._sites = sites
        self._values = values
        self._place = place
        self._made: dict[ast.Call, Call] = {}

    @cached_property
    def named(self) -> tuple[Call, ...]:
        """CallTable with a canonical name."""
        calls = (self.of(node) for node in self._scopes if self._names.written(node.func) is not None)
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
    def _scopes(self) -> dict[ast.Call, Scope]:
        return dict(self._walk.calls)

    @cached_property
    def _by_line(self) -> dict[int, list[ast.Call]]:
        lines: dict[int, list[ast.Call]] = {}
        for node in self._scopes:
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
        spread = any(isinstance(a, ast.Starred) for a in node.args) or any(k.arg is None for k in node.keywords)
        scope = self._scopes.get(node)
        return Call(
            node,
            name or (ast.unparse(node.func) if own else ""),
            arguments,
            self._place(node),
            scope.path if scope else "",
            written or "",
            spread,
        )

    def _argument(self, name: str, node: ast.expr) -> Argument:
        return Argument(name, node, self._place(node), self._values)

    def _own(self, node: ast.Call) -> tuple[FunctionNode, int] | None:
        """Return the one function of the file that a call of a name reaches."""
        found = self._sites.targets(node.func) if isinstance(node.func, ast.Name) else []
        return found[0] if len(found) == 1 else None


def _parameters(function: FunctionNode, skipped: int) -> tuple[str, ...]:
    positional_ = [*function.args.posonlyargs, *function.args.args]
    return tuple(arg.arg for arg in positional_[skipped:])
