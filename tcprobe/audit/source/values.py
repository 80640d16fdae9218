"""What a value holds, as far as it is known: elements, tensors, sizes, members; and the doubts about it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from tcprobe.audit.source.arrays.indexing import indexed
from tcprobe.audit.source.kinds import (
    BATCH,
    Bound,
    Class,
    DataSet,
    Draft,
    Entries,
    Instance,
    Items,
    Named,
    SourceValue,
    Tensor,
    Unknown,
)
from tcprobe.schema.op import Shape, Size, known_size
from tcprobe.source.values import DOUBTED, MOST_LEAVES, Doubts, Known, identical, item, same, tuple_of

MOST_ELEMENTS: Final = 64  # iterations of a loop that are followed one by one
_MOST_PARTS: Final = 200_000
_SURE: Final[Doubts] = frozenset()
_OPEN: Final = frozenset((Unknown, Tensor, Bound, Named))
"""Kinds of which it is not known whether they count as true."""
_Kind = TypeVar("_Kind")


class SpentError(Exception):
    """The program is too long to be followed to its end, or makes too much."""


# Doubts: a value is taken for granted that may be another, as by an option of the command line.


def doubted(value: SourceValue, doubts: Doubts) -> SourceValue:
    """Return a value with doubts about its constants; lists and objects, which others share, stay as they are."""
    return value.doubted(doubts) if type(value) is Known else value


def guessed(value: SourceValue, doubts: Doubts) -> SourceValue:
    """Return a value with doubts about it, also where it is a list or object."""
    if type(value) is Known:
        return value.doubted(doubts)
    if not doubts:
        return value
    if type(value) is Items or type(value) is Entries or (type(value) is Instance and value.keras is None):
        return replace(value, doubts=value.doubts | doubts)
    return value


def doubts_of(value: SourceValue) -> Doubts:
    """Return why a value may be another one."""
    if type(value) is Known or type(value) is Items or type(value) is Entries or type(value) is Instance:
        return value.doubts
    return _SURE


def through(made: SourceValue, *values: SourceValue) -> SourceValue:
    """Return what was made of lists and objects, with the doubts about these; constants hand theirs on themselves."""
    doubts = [d for value in values if type(value) is not Known and (d := doubts_of(value))]
    return guessed(made, _SURE.union(*doubts)) if doubts else made


def shaken(value: SourceValue) -> None:
    """Note of a list or dictionary that it may be changed otherwise than was seen."""
    if isinstance(value, (Items, Entries)):
        value.doubts = DOUBTED


def one_of(values: Sequence[SourceValue | None]) -> SourceValue:
    """Return what holds of all values of which one will be taken; None stands for a name that is not set."""
    first = values[0]
    if first is not None and all(value is first for value in values):
        return first
    there = [value for value in values if value is not None]
    common = _common(there) if len(there) == len(values) else None
    return common or Unknown("is set under a condition")


def _common(values: list[SourceValue]) -> SourceValue | None:
    """Return what several values agree on; None where it is nothing."""
    first = values[0]
    if known := _all(Known, values):
        return same(known)
    if tensors := _all(Tensor, values):
        both = tensors[0]
        for other in tensors[1:]:
            both = either(both, other)
        return both
    lists = _all(Items, values)
    if lists and len({len(v.items) for v in lists}) == 1:
        rows = zip(*(v.items for v in lists), strict=True)
        return Items([one_of(row) for row in rows], next((v.open for v in lists if v.open), None))
    return first if type(first) is Named and all(v == first for v in values) else None


def _all(kind: type[_Kind], values: list[SourceValue]) -> list[_Kind]:
    """Return the values where all are of a kind, else nothing."""
    found: list[_Kind] = [value for value in values if isinstance(value, kind)]
    return found if len(found) == len(values) else []


def either(a: Tensor, b: Tensor) -> Tensor:
    """Return what two tensors have in common."""
    shape = None
    if a.shape is not None and b.shape is not None and len(a.shape) == len(b.shape):
        shape = tuple(x if x == y else None for x, y in zip(a.shape, b.shape, strict=True))
    fresh = a.fresh if a.fresh == b.fresh else None
    sources = tuple(dict.fromkeys((*a.sources, *b.sources)))
    features = a.last if a.last == b.last else None
    samples = a.samples if a.samples == b.samples else None
    return Tensor(shape, features, sources, a.symbolic or b.symbolic, fresh, samples)


# Lists, dictionaries, and what is in them


def is_read(value: SourceValue) -> bool:
    """Return whether a file decides what a value is, or what may be in it, that the program reads as it runs."""
    return (type(value) is Unknown or type(value) is Items or type(value) is Entries) and value.read


def sequence(values: Iterable[SourceValue]) -> SourceValue:
    """Return a tuple of constants where all are and they are not too many, else the list of them."""
    values = list(values)
    known = _all(Known, values)
    told = len(known) == len(values) and sum(k.leaves for k in known) <= MOST_LEAVES
    return tuple_of(known) if told else Items(values)


def items_of(value: SourceValue | None) -> list[SourceValue] | None:
    """Return the elements of a list or tuple; None where it is none or may hold others."""
    if type(value) is Items:
        return list(value.items) if value.open is None else None
    return list(value.elements) if type(value) is Known and isinstance(value.value, tuple) else None


def elements(value: SourceValue | None) -> list[SourceValue] | None:
    """Return what a loop over a value meets, one by one; None where that is not known, or too much."""
    if type(value) is Entries:
        found: list[SourceValue] | None = None if value.open else [value.key(key) for key in value.entries]
    else:
        found = items_of(value)
    if found is None or len(found) > MOST_ELEMENTS:
        return None
    doubts = value.doubts if type(value) is Items or type(value) is Entries else None
    return [doubted(element, doubts) for element in found] if doubts else found


def any_of(value: SourceValue) -> SourceValue | None:
    """Return what each element of a value is, however many there are; None where they differ or are not known."""
    if type(value) is DataSet:
        return value.element
    if type(value) is Tensor and value.shape:
        return indexed(value, ["one"])
    return value.items[0] if type(value) is Items and len(value.items) == 1 else None


def entry(of: SourceValue, key: Any) -> SourceValue | None:
    """Return an element of a list, tuple, dictionary or record; None where there is none."""
    if type(of) is Entries:
        named = isinstance(key, str)  # no other constant equals a text
        found = of.entries.get(key) if named else next((v for k, v in of.entries.items() if identical(k, key)), None)
        return doubted(found, DOUBTED) if of.open and found is not None else found
    if type(of) is Known:
        return item(of, key)
    if type(of) is Items and of.open and key == -1 and len(of.items) == 1:
        return of.items[0]
    fields = list(of.attrs.values()) if type(of) is Instance and not of.keras else items_of(of) or []
    return fields[key] if type(key) is int and -len(fields) <= key < len(fields) else None


def tensors_of(*values: SourceValue) -> list[Tensor]:
    """Return the tensors in values.

    Raises:
        SpentError: as `parts_of`.
    """
    found: list[Tensor] = []
    for value in values:
        if type(value) is Tensor:
            found.append(value)
        elif type(value) is Items or type(value) is Entries:
            found += [part for part in parts_of(value) if type(part) is Tensor]
    return found


def parts_of(value: SourceValue) -> Iterator[SourceValue]:
    """Yield a value and all that its lists and dictionaries hold, in their order, a list before its elements.

    Raises:
        SpentError: they hold too much, or one another: of ``x = [x, x]`` in 60 lines nobody sees all.
    """
    pending = [value]
    for _ in range(_MOST_PARTS):
        if not pending:
            return
        part = pending.pop()
        yield part
        if type(part) is Items:
            pending.extend(reversed(part.items))
        elif type(part) is Entries:
            pending.extend(reversed(part.entries.values()))
    raise SpentError


def with_tensors(value: SourceValue, make: Callable[[Tensor], Tensor]) -> SourceValue:
    """Return a value with another tensor for each in its lists; as it is where it holds none."""
    if type(value) is Tensor:
        return make(value)
    items = items_of(value)
    return Items([with_tensors(v, make) for v in items]) if items is not None and tensors_of(value) else value


# Constants and sizes


def known_of(value: SourceValue, depth: int = 8) -> Known | None:
    """Return the constant that a value is, a list of constants as a tuple; None where it is none."""
    if type(value) is Known:
        return value
    if type(value) is not Items or value.open is not None or not depth:
        return None
    parts: list[Known] = []
    leaves = 0
    for element in value.items:
        known = known_of(element, depth - 1)
        leaves += known.leaves if known is not None else 0
        if known is None or leaves > MOST_LEAVES:
            return None
        parts.append(known)
    return tuple_of(parts).doubted(value.doubts)


def truth(value: SourceValue) -> bool | None:
    """Return whether a value counts as true; None where that is not known."""
    if type(value) is Known:
        return bool(value.value)
    if type(value) is Items or type(value) is Entries:
        holds = bool(value.items if isinstance(value, Items) else value.entries)
        return holds or (None if value.open else False)
    return None if type(value) in _OPEN else True


def shape_from(value: SourceValue | None) -> Shape | None:
    """Return the shape that a tuple of sizes is, unknown sizes as None; None where its rank is unknown."""
    if type(value) is Known and type(value.value) is int:
        return (size_from(value),)
    items = items_of(value)
    return tuple(size_from(item) for item in items) if items is not None else None


def size_from(value: SourceValue) -> Size:
    """Return a size; None where it is none or not known."""
    return known_size(value.value) if type(value) is Known else None


def dimension(size: Size) -> SourceValue:
    """Return a dimension of a shape, which is no constant of the source's own."""
    return Unknown("is a dimension that is not known") if size is None else Known(size, doubts=DOUBTED)


def dimensions(of: Tensor) -> SourceValue:
    """Return the shape of a tensor as a list of sizes."""
    if of.shape is not None:
        sizes = [dimension(size) for size in of.shape]
        if of.rows == 1 and len(sizes) > of.batch and of.shape[of.batch] is None:
            sizes[of.batch] = BATCH
        return Items(sizes)
    if of.features is not None:
        return Items([dimension(of.features)], "its rank is not known")
    return Unknown("is the shape of a tensor of unknown rank")


def plain_constant(value: SourceValue) -> Any:
    """Return the constant that a value is, as Keras' config holds it; ``...`` where it is not known.

    A function or dtype of TensorFlow or Keras becomes its own name (``tf.nn.relu``: ``relu``).

    Raises:
        SpentError: as `parts_of`.
    """
    if type(value) is Items or type(value) is Entries:
        for _ in parts_of(value):
            pass
    return _plain(value)


def _plain(value: SourceValue) -> Any:
    if type(value) is Known:
        return value.value
    if type(value) is Named:
        return value.name.rpartition(".")[2]
    if type(value) is Draft:
        return {"class_name": value.kind, "config": value.config}
    items = items_of(value)
    return tuple(_plain(item) for item in items) if items is not None else ...


# Classes, and what calls yield


def find_member(of: Class, name: str) -> SourceValue | None:
    """Return a member of a class of the file or of its bases there."""
    return next((c.members[name] for c in lineage(of) if type(c) is Class and name in c.members), None)


def lineage(of: SourceValue) -> Iterator[SourceValue]:
    """Yield a class and all that it extends, each class once, what stands first among its bases first."""
    pending, seen = [of], set[int]()
    while pending:
        at = pending.pop()
        if id(at) not in seen:
            seen.add(id(at))
            yield at
            pending.extend(reversed(at.bases) if type(at) is Class else ())


def result_of(node: ast.Call, *given: SourceValue) -> SourceValue:
    """Return what a call that is not followed yields: of tensors a tensor."""
    tensors = tensors_of(*given)
    if not tensors:
        return Unknown(f"is the result of {unparsed(node.func)}()")
    return Tensor(None, None, (), any(t.symbolic for t in tensors), None)


def not_known(node: ast.expr) -> Unknown:
    """Return what an expression is of which nothing is known."""
    return Unknown(f"{unparsed(node)} is not known")


@lru_cache(maxsize=1024)
def unparsed(node: ast.expr) -> str:
    """Return an expression's text, short; kept, since calls and loops come by the same expressions."""
    try:
        text = ast.unparse(node)
    except (RecursionError, ValueError):  # nested too deeply, a number of too many digits
        return "an expression"
    return text if len(text) <= 40 else f"{text[:37]}..."
