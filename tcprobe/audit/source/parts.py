"""Parts of values: elements, members, truth."""

from __future__ import annotations

import ast
from dataclasses import replace

from tcprobe.audit.source.layers import unparsed
from tcprobe.audit.source.values import (
    Bound,
    Class,
    Entries,
    Instance,
    Items,
    Named,
    Routine,
    Tensor,
    Unknown,
    Value,
    either,
    number,
)
from tcprobe.keras.shapes.layers import output_shape
from tcprobe.syntax.values import Known, identical, item


def truth(value: Value) -> bool | None:
    """Return whether a value counts as true; None where that is not known."""
    if isinstance(value, Known):
        return bool(value.value)
    if isinstance(value, Items):
        return bool(value.items) or (None if value.open else False)
    if isinstance(value, Entries):
        return bool(value.entries) or (None if value.open else False)
    return None if isinstance(value, Unknown | Tensor | Bound | Named) else True


def entry(of: Value, index: Known, node: ast.expr) -> Value:
    """Return an element of a list, tuple or dictionary."""
    key = index.value
    if isinstance(of, Entries):
        for known, value in of.entries.items():
            if identical(known, key):
                return value
        return Unknown(f"{unparsed(node)} is not set")
    if isinstance(of, Known):
        return item(of, index, node) or Unknown(f"{unparsed(node)} is not known")
    if isinstance(of, Items) and not of.open and type(key) is int and -len(of.items) <= key < len(of.items):
        return of.items[key]
    if isinstance(of, Instance) and type(key) is int and not of.keras:
        fields = list(of.attrs.values())
        return fields[key] if -len(fields) <= key < len(fields) else Unknown(f"{unparsed(node)} is not known")
    return Unknown(f"{unparsed(node)} is not known")


def find_member(of: Class, name: str) -> Value | None:
    """Return a member of a class of the file or of its bases there."""
    if name in of.members:
        return of.members[name]
    for base in of.bases:
        found = find_member(base, name) if isinstance(base, Class) and base is not of else None
        if found is not None:
            return found
    return None


def marked(routine: Routine, name: str) -> bool:
    """Return whether a function carries a plain decorator: staticmethod, classmethod, property."""
    marks = getattr(routine.node, "decorator_list", ())
    return any(isinstance(mark, ast.Name) and mark.id == name for mark in marks)


def dimension(size: int | None, node: ast.expr) -> Value:
    """Return a dimension of a shape."""
    return number(size, node) if size is not None else Unknown("is a dimension that is not known")


def of_tensors(op: ast.operator, left: Value, right: Value) -> Value:
    """Return an elementwise result: of two like tensors, or of one and a number."""
    if isinstance(left, Tensor) and isinstance(right, Tensor):
        both = either(left, right)
        if isinstance(op, ast.MatMult):
            return replace(both, shape=None, features=None)
        known = left.shape is not None and right.shape is not None
        return replace(both, shape=output_shape("Add", {}, [left.shape, right.shape])) if known else both
    tensor, other = (left, right) if isinstance(left, Tensor) else (right, left)
    assert isinstance(tensor, Tensor)
    if isinstance(other, Known) and isinstance(other.value, int | float):
        return tensor
    return Tensor(None, None, tensor.sources, tensor.symbolic, None)


def used_inside(module: ast.Module) -> set[str]:
    """Return the names that functions and classes of a module use of one another, each its own left out."""
    found: set[str] = set()
    for statement in module.body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names = {n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
            found |= names - {statement.name}
    return found
