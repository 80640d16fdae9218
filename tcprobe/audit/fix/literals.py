"""Where a size stands: a whole number in a layer's own call, or a name that the file assigns once.

All that the number's name is used for must be arguments that are wanted to change; and the number may stand nowhere
else but in layers' calls, as whether it means the same size there (a shape, a slice, a loop, data) nobody can tell.
"""

from __future__ import annotations

import ast
import itertools
import operator
import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tcprobe.audit.fix.text import inside
from tcprobe.audit.fix.wants import NotCertain, Want
from tcprobe.schema.finding import Edit
from tcprobe.schema.place import Place
from tcprobe.schema.statement import say

if TYPE_CHECKING:
    from tcprobe.source.calls import Argument, Call
    from tcprobe.source.source import Source

_INSTALLED: Final = {"site-packages", "dist-packages"}  # folders of code that is not the user's to edit
# What may read any name of a file, by its text or with all others.
_REFLECTS: Final = frozenset(
    (
        *("globals", "locals", "vars", "dir", "eval", "exec", "__import__", "import_module", "__main__", "modules"),
        *("__globals__", "__dict__", "f_globals", "f_locals", "currentframe", "_getframe", "__all__"),
    )
)
_PLAIN: Final = (ast.Constant, ast.Name, ast.Attribute, ast.Subscript, ast.Tuple, ast.List, ast.BinOp, ast.UnaryOp)
_INNER: Final = (ast.operator, ast.unaryop, ast.expr_context)


class Number(NamedTuple):
    """Where a literal stands that is a size; `name` is what the file assigns it to, None where it is in the call."""

    place: Place
    name: str | None


class Numbers:
    """The numbers of one file that may be edited.

    Args:
        source: the file.
        others: the other files that are known.
    """

    def __init__(self, source: Source, others: Iterable[Source]) -> None:
        self._source = source
        self._others = list(others)

    def number(self, want: Want) -> Number:
        """Return the literal that an argument is.

        Raises:
            NotCertain: it is none, or its name may have another value, or be read by other code.
        """
        argument = self._arguments.get((want.place, want.argument))
        node = argument.node if argument is not None else None
        name = node.id if isinstance(node, ast.Name) else None
        value = self._assigned(name) if name is not None else node
        installed = _INSTALLED & set(Path(self._source.path).parts)
        if installed or not isinstance(value, ast.Constant) or type(value.value) is not int or value.value != want.old:
            raise NotCertain(say("not_literal", argument=want.argument))
        return Number(self._source.place(value), name)

    def edits(self, wants: Iterable[Want], sizes: Iterable[int]) -> list[Edit]:
        """Return the edits that change arguments, and nothing else that the file tells.

        Args:
            wants: the arguments.
            sizes: all that change with them.

        Raises:
            NotCertain: a number is used for something else as well.
        """
        numbers = {want: self.number(want) for want in wants}
        places, known = {want.place for want in numbers}, {size for size in sizes if size > 1}
        for name in dict.fromkeys(number.name for number in numbers.values() if number.name is not None):
            uses = (self._source.place(use) for use in self._names[name] if isinstance(use.ctx, ast.Load))
            if not places.issuperset(uses):
                raise NotCertain(say("used_otherwise", number=name))
        own = {number.place for number in numbers.values()}
        for node, found in self._elsewhere:
            if (same := found & known) and self._source.place(node) not in own:
                raise NotCertain(say("used_otherwise", number=str(min(same))))
        news = {number.place: want.new for want, number in numbers.items()}
        texts = {place: self._source.segment(place) for place in news}
        return [Edit(place, texts[place], _spelled(texts[place], new)) for place, new in news.items()]

    def _assigned(self, name: str) -> ast.expr | None:
        """Return what a name stands for everywhere in the file; None where other code may bind or read it."""
        stores = [use for use in self._names[name] if not isinstance(use.ctx, ast.Load)]
        node = self._parents.get(stores[0]) if len(stores) == 1 else None
        once = isinstance(node, ast.AnnAssign) or (isinstance(node, ast.Assign) and node.targets == stores)
        if not once or not isinstance(self._parents.get(node), ast.Module | ast.FunctionDef):  # type: ignore[arg-type]
            return None
        read = any(re.search(rf"\b{re.escape(name)}\b", other.text) for other in self._others)
        hidden = read or name in self._words or not _REFLECTS.isdisjoint(self._words)
        return None if hidden else node.value  # type: ignore[union-attr]

    @cached_property
    def _arguments(self) -> dict[tuple[Place, str], Argument]:
        """The arguments that stand in calls of Keras' own layers."""
        return {(a.place, a.name): a for c in self._layers for a in c.arguments.values() if inside(a.place, c.place)}

    @cached_property
    def _layers(self) -> list[Call]:
        return [call for call in self._source.calls() if call.name.startswith("keras.layers.")]

    @cached_property
    def _parents(self) -> dict[ast.AST, ast.AST]:
        return parents_of(self._source.tree)

    @cached_property
    def _names(self) -> dict[str, list[ast.Name]]:
        found: dict[str, list[ast.Name]] = {}
        for node in ast.walk(self._source.tree):
            if isinstance(node, ast.Name):
                found.setdefault(node.id, []).append(node)
        return found

    @cached_property
    def _words(self) -> set[str]:
        """All names and texts of the file that are no plain variables: what may bind or read one in another way."""
        found = {name for name in self._names if name in _REFLECTS}
        for node in ast.walk(self._source.tree):
            if isinstance(node, ast.Constant):
                found |= {node.value} - _REFLECTS if isinstance(node.value, str) else set()
            elif not isinstance(node, ast.Name | ast.keyword):
                fields = [value for _, value in ast.iter_fields(node)]
                texts = [text for value in fields for text in (value if isinstance(value, list) else [value])]
                found.update(part for text in texts if isinstance(text, str) for part in text.split("."))
        return found

    @cached_property
    def _elsewhere(self) -> list[tuple[ast.expr, set[int]]]:
        """The numbers that stand, or come about, anywhere but in the arguments of layers and the names for these."""
        own: set[ast.AST] = {argument.node for argument in self._arguments.values() if _is_plain(argument.node)}
        for name, uses in self._names.items():
            loads = [use for use in uses if isinstance(use.ctx, ast.Load)]
            if loads and own.issuperset(loads) and isinstance(value := self._assigned(name), ast.Constant):
                own.update((value, *uses))
        layers = {call.node for call in self._layers}
        found, todo = list[tuple[ast.expr, set[int]]](), [*ast.iter_child_nodes(self._source.tree)]
        for node in todo:
            if node in own:
                continue
            todo += ast.iter_child_nodes(node)
            if isinstance(node, ast.expr) and node not in layers:
                values = [_written(node), *(known.value for known in self._source.seen(node))]
                found.append((node, {number for value in values for number in _sizes(value)}))
        return [(node, numbers) for node, numbers in found if numbers]


def parents_of(tree: ast.AST) -> dict[ast.AST, ast.AST]:
    """Return the node around each node."""
    return {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}


def _is_plain(node: ast.expr) -> bool:
    """Say whether an expression is arithmetic on names and numbers, and calls nothing."""
    return all(isinstance(part, (*_PLAIN, *_INNER)) for part in ast.walk(node))


def _written(node: ast.expr) -> Any:
    """Return a number or shape as it is written, also in code that is never followed and in ``reshape(-1, 7, 9)``."""
    if isinstance(node, ast.Constant):
        return node.value
    parts = node.args if isinstance(node, ast.Call) else getattr(node, "elts", ())
    return tuple(part.value if isinstance(part, ast.Constant) else None for part in parts)


def _sizes(value: Any) -> Iterator[int]:
    """Yield a number, or those of a shape, with the products of its last ones: ``(-1, 7, 7, 63)`` holds 3087."""
    if type(value) is int:
        yield value
    elif isinstance(value, tuple):
        yield from (number for item in value for number in _sizes(item))
        last = itertools.takewhile(lambda size: type(size) is int and size > 0, reversed(value))
        yield from itertools.accumulate(last, operator.mul)


def _spelled(text: str, new: int) -> str:
    """Return a number in the spelling of another: ``0x3f``, ``3_087``."""
    prefix = text[:2]
    if prefix.lower() in ("0x", "0o", "0b"):
        digits = format(new, prefix[1].lower())
        return prefix + (digits.upper() if text[2:].isupper() else digits)
    return f"{new:_}" if "_" in text else str(new)
