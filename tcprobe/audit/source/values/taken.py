"""What is taken out of a value: an element, a slice, one of several by their truth."""

from __future__ import annotations

import ast

from tcprobe.audit.source.values.kinds import Entries, Items, SourceValue, Unknown
from tcprobe.audit.source.values.known import items_of
from tcprobe.audit.source.values.parts import entry, truth, unparsed
from tcprobe.audit.source.values.several import fork, guessed, is_open, mapped, several, through
from tcprobe.source.values import Known, item


def taken(of: SourceValue, index: SourceValue, node: ast.Subscript) -> SourceValue:
    """Return an element of a list, tuple or dictionary; where it is not known which, every one that it may be."""
    if isinstance(of, Unknown):
        return mapped(of.reason, [of, index], lambda row: taken(row[0], row[1], node)) if of.options else of
    if isinstance(index, Known):
        last = isinstance(of, Items) and of.open and index.value == -1 and len(of.items) == 1
        made = of.items[0] if last and isinstance(of, Items) else entry(of, index, node)
        if index.doubts and not index.options:
            return guessed(made, any_element(of, "") if is_open(index) else Unknown(""), index.doubts)
        return through(made, [of, index], lambda row: taken(row[0], row[1], node))
    reason = index.reason if isinstance(index, Unknown) else f"{unparsed(node.slice)} is not known"
    if isinstance(index, Unknown) and index.options:
        return mapped(reason, [index], lambda row: taken(of, row[0], node))
    return any_element(of, reason)


def any_element(of: SourceValue, reason: str) -> Unknown:
    """Return any of the elements of a list, tuple or dictionary."""
    whole = list(of.entries.values()) if isinstance(of, Entries) and not of.open else items_of(of)
    point = fork()
    return several(reason, ((v, frozenset({(point, i)})) for i, v in enumerate(whole or ())), bool(whole))


def cut_out(of: SourceValue, cut: slice, node: ast.Subscript) -> SourceValue:
    """Return a slice of a list, tuple or text."""
    if isinstance(of, Known):
        return item(of, cut, node) or Unknown(f"{unparsed(node)} is not known")
    return Items(of.items[cut]) if isinstance(of, Items) and not of.open else Unknown(f"{unparsed(node)} is not known")


def decided(row: list[SourceValue], stops: bool) -> SourceValue:
    """Return what `or` (`and`) makes of values; `stops` is the truth that ends it."""
    for value in row:
        known = truth(value)
        if known is None or known is stops:
            return value if known is not None else Unknown("is not known")
    return row[-1]
