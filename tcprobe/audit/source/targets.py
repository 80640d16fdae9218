"""What assignments change: names, attributes, elements."""

from __future__ import annotations

import ast
from dataclasses import replace
from functools import partial

from tcprobe.audit.source.arrays.indexing import indexed
from tcprobe.audit.source.outside.graphs import freeze
from tcprobe.audit.source.state import Interpreter, State
from tcprobe.audit.source.values.kinds import (
    Class,
    CommandLine,
    Draft,
    Entries,
    Graph,
    Instance,
    Items,
    Named,
    SourceValue,
    Stack,
    Tensor,
    Unknown,
)
from tcprobe.audit.source.values.known import items_of
from tcprobe.audit.source.values.several import one_of, several, through
from tcprobe.source.values import Known


class Targets:
    """Gives targets of assignments their values."""

    def __init__(self, state: State, interpreter: Interpreter) -> None:
        self._state = state
        self._interpreter = interpreter

    def bind(self, target: ast.AST, value: SourceValue) -> None:
        """Give a target of an assignment its value."""
        if isinstance(target, ast.Name):
            passed = target.id == "tf" and isinstance(value, Unknown)
            self._state.env.vars[target.id] = Named("tensorflow") if passed else value
        elif isinstance(target, ast.Tuple | ast.List):
            self._unpack(target.elts, value)
        elif isinstance(target, ast.Attribute):
            of = self._interpreter.value(target.value)
            if not self._state.aside:
                self._set_attribute(of, target.attr, self._state.doubted(value))
        elif isinstance(target, ast.Subscript):
            of, key = self._interpreter.value(target.value), self._interpreter.value(target.slice)
            if not self._state.aside:
                self._set_item(of, key, self._state.doubted(value))

    def _unpack(self, targets: list[ast.expr], value: SourceValue) -> None:
        starred = next((i for i, t in enumerate(targets) if isinstance(t, ast.Starred)), None)
        parts = _unpacked(value, len(targets), starred)
        if parts is None:
            parts = _each_unpacked(value, len(targets), starred)
        elif not isinstance(value, Tensor):
            nth = [partial(_nth, index, len(targets), starred) for index in range(len(parts))]
            parts = [through(part, [value], make) for part, make in zip(parts, nth, strict=True)]
        for part, found in zip(targets, parts, strict=True):
            self.bind(part.value if isinstance(part, ast.Starred) else part, found)

    def _set_attribute(self, of: SourceValue, name: str, value: SourceValue) -> None:
        sure = not self._state.conditions
        if isinstance(of, Instance):
            known = of.attrs.get(name)
            of.attrs[name] = value if sure or known is None else one_of([known, value])
        elif isinstance(of, CommandLine):
            of.entries[name] = value if sure else one_of([of.entries.get(name), value])
        elif isinstance(of, Class):
            of.members[name] = value
        elif name == "trainable" and isinstance(of, Draft | Stack | Graph):
            freeze(of, value if sure else Unknown("under a condition"), self._state.layers.drafts)

    def _set_item(self, of: SourceValue, key: SourceValue, value: SourceValue) -> None:
        if isinstance(of, Entries):
            if isinstance(key, Known) and not self._state.conditions:
                of.entries[key.value] = value
            else:
                of.open = "is changed in place"
        elif isinstance(of, Items):
            if isinstance(key, Known) and type(key.value) is int and -len(of.items) <= key.value < len(of.items):
                of.items[key.value] = value
            else:
                of.open = "is changed in place"


def _unpacked(value: SourceValue, count: int, starred: int | None) -> list[SourceValue] | None:
    """Return the parts of an unpacked value, those of a starred target as one list; None where they do not fit."""
    found = items_of(value)
    if isinstance(value, Instance) and not value.keras:
        found = list(value.attrs.values())
    if isinstance(value, Tensor) and starred is None:  # several inputs of a model, or rows
        row = indexed(value, ["one"]) if value.shape and value.shape[0] == count else Tensor()
        found = [replace(row, sources=(), symbolic=value.symbolic, fresh=value.fresh)] * count
    if found is None or (len(found) != count if starred is None else len(found) < count - 1):
        return None
    if starred is None:
        return found
    after = count - starred - 1
    end = len(found) - after
    return [*found[:starred], Items(found[starred:end]), *found[end:]]


def _nth(index: int, count: int, starred: int | None, row: list[SourceValue]) -> SourceValue:
    """Return one part of an unpacked value."""
    parts = _unpacked(row[0], count, starred)
    return parts[index] if parts is not None else Unknown("is unpacked from something that is not known")


def _each_unpacked(value: SourceValue, count: int, starred: int | None) -> list[SourceValue]:
    """Return the parts of a value that may be several, or is not known."""
    if not isinstance(value, Unknown):
        return [Unknown("is unpacked from something that is not known")] * count
    rows = [(_unpacked(option, count, starred), choices) for option, choices in value.options]
    told = [(row, choices) for row, choices in rows if row is not None]
    whole = value.complete and len(told) == len(rows)
    return [several(value.reason, [(row[i], choices) for row, choices in told], whole) for i in range(count)]
