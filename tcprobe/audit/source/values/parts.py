"""What a value holds, by itself: elements, members, truth."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

from tcprobe.audit.source.arrays.indexing import indexed
from tcprobe.audit.source.values.kinds import (
    BATCH,
    Bound,
    Class,
    DataSet,
    Draft,
    Entries,
    Instance,
    Items,
    Named,
    Routine,
    SourceValue,
    Tensor,
    Unknown,
    known_constant,
)
from tcprobe.audit.source.values.known import items_of, parts_of
from tcprobe.audit.source.values.several import doubted
from tcprobe.source.values import Doubt, Known, identical, item

MOST_ELEMENTS: Final = 64  # iterations of a loop that are followed one by one


def elements(value: SourceValue) -> list[SourceValue] | None:
    """Return what a loop over a value meets, one by one; None where that is not known, or too much."""
    if isinstance(value, Entries):
        keys: list[SourceValue] = [value.key(key) for key in value.entries]
        found = None if value.open else keys
    else:
        found = items_of(value)
    if found is None or len(found) > MOST_ELEMENTS:
        return None
    guess = value.guess if isinstance(value, Items | Entries) else None
    for doubt in guess.doubts if guess is not None else ():
        found = [doubted(element, doubt) for element in found]
    return found


def any_of(value: SourceValue) -> SourceValue | None:
    """Return what each element of a value is, however many there are; None where they differ or are not known."""
    if isinstance(value, DataSet):
        return value.element
    if isinstance(value, Tensor) and value.shape:
        return indexed(value, ["one"])
    return value.items[0] if isinstance(value, Items) and len(value.items) == 1 else None


def truth(value: SourceValue) -> bool | None:
    """Return whether a value counts as true; None where that is not known."""
    if isinstance(value, Known):
        return bool(value.value)
    if isinstance(value, Items):
        return bool(value.items) or (None if value.open else False)
    if isinstance(value, Entries):
        return bool(value.entries) or (None if value.open else False)
    return None if isinstance(value, Unknown | Tensor | Bound | Named) else True


def entry(of: SourceValue, index: Known, node: ast.expr) -> SourceValue:
    """Return an element of a list, tuple or dictionary."""
    key = index.value
    if isinstance(of, Entries):
        for known, value in of.entries.items():
            if identical(known, key):
                return doubted(value, Doubt(of.open)) if of.open else value
        return Unknown(f"{unparsed(node)} is not set")
    if isinstance(of, Known):
        return item(of, index, node) or Unknown(f"{unparsed(node)} is not known")
    if isinstance(of, Items) and not of.open and type(key) is int and -len(of.items) <= key < len(of.items):
        return of.items[key]
    if isinstance(of, Instance) and type(key) is int and not of.keras:
        fields = list(of.attrs.values())
        return fields[key] if -len(fields) <= key < len(fields) else Unknown(f"{unparsed(node)} is not known")
    return Unknown(f"{unparsed(node)} is not known")


def find_member(of: Class, name: str) -> SourceValue | None:
    """Return a member of a class of the file or of its bases there."""
    return next((c.members[name] for c in lineage(of) if isinstance(c, Class) and name in c.members), None)


def lineage(of: SourceValue) -> Iterator[SourceValue]:
    """Yield a class and all that it extends, each class once, what stands first among its bases first."""
    pending, seen = [of], set[int]()
    while pending:
        at = pending.pop()
        if id(at) not in seen:
            seen.add(id(at))
            yield at
            pending.extend(reversed(at.bases) if isinstance(at, Class) else ())


def marked(routine: Routine, name: str) -> bool:
    """Return whether a function carries a plain decorator: staticmethod, classmethod, property."""
    marks = getattr(routine.node, "decorator_list", ())
    return any(isinstance(mark, ast.Name) and mark.id == name for mark in marks)


def dimension(size: int | None, node: ast.expr) -> SourceValue:
    """Return a dimension of a shape."""
    if size is None:
        return Unknown("is a dimension that is not known")
    return known_constant(size, node).doubted(Doubt("is a dimension of a tensor", hidden=True))


def dimensions(of: Tensor, node: ast.expr) -> SourceValue:
    """Return the shape of a tensor as a list of sizes."""
    if of.shape is not None:
        sizes: list[SourceValue] = [dimension(size, node) for size in of.shape]
        if of.rows == 1 and len(sizes) > of.batch and of.shape[of.batch] is None:
            sizes[of.batch] = BATCH
        return Items(sizes)
    if of.features is not None:
        return Items([dimension(of.features, node)], "its rank is not known")
    return Unknown("is the shape of a tensor of unknown rank")


def result_of(node: ast.Call, tensors: list[Tensor]) -> SourceValue:
    """Return what a call that is not followed yields: of tensors a tensor."""
    if not tensors:
        return Unknown(f"is the result of {unparsed(node.func)}()")
    return Tensor(None, None, (), any(t.symbolic for t in tensors), None)


@lru_cache(maxsize=1024)
def unparsed(node: ast.expr) -> str:
    """Return an expression's text, short; kept, since calls and loops come by the same expressions."""
    try:
        text = ast.unparse(node)
    except (RecursionError, ValueError):  # nested too deeply, a number of too many digits
        return "an expression"
    return text if len(text) <= 40 else f"{text[:37]}..."


def plain_constant(value: SourceValue) -> Any:
    """Return the constant that a value is, as Keras' config holds it; ``...`` where it is not known.

    A function or dtype of TensorFlow or Keras becomes its own name (``tf.nn.relu``: ``relu``).

    Raises:
        SpentError: as `parts_of`.
    """
    for _ in parts_of(value):
        pass
    return _plain(value)


def _plain(value: SourceValue) -> Any:
    if isinstance(value, Known):
        return value.value
    if isinstance(value, Named):
        return value.name.rpartition(".")[2]
    if isinstance(value, Draft):
        return {"class_name": value.kind, "config": value.config}
    items = items_of(value)
    return tuple(_plain(item) for item in items) if items is not None else ...
