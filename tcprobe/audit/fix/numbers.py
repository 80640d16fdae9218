"""Where a size stands: a whole number in a layer's own call, or a name that the file assigns once.

All that the number's name is used for must be arguments that are wanted to change; and the number may stand nowhere
else but in layers' calls, as whether it means the same size there (a shape, a slice, a loop, data) nobody can tell.
"""

from __future__ import annotations

import ast
import itertools
import operator
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tcprobe.audit.fix.wants import NotCertain, Want
from tcprobe.schema.finding import Edit
from tcprobe.schema.model import Place
from tcprobe.schema.statement import say

if TYPE_CHECKING:
    from tcprobe.source.source import Source

_INSTALLED: Final = {"site-packages", "dist-packages"}  # folders of code that is not the user's to edit
_REFLECTS: Final = re.compile(
    r"\b(globals|locals|vars|dir|eval|exec|modules|import_module|currentframe|_getframe|f_globals|f_locals)\b"
    r"|__(import|globals|dict|all)__|(import|from) __main__"
)
"""What may read any name of a file, by its text or with all others."""


class Numbers:
    """The numbers of one file that may be edited.

    Args:
        source: the file.
        others: the other files that are known.
    """

    def __init__(self, source: Source, others: Iterable[Source]) -> None:
        self._source = source
        self._others = list(others)

    def number(self, want: Want) -> tuple[Place, str | None]:
        """Return where the literal stands that an argument is, and the name that the file assigns it to, if any.

        Raises:
            NotCertain: it is none, or its name may have another value, or be read by other code.
        """
        node = self._arguments.get((want.place, want.argument))
        name = node.id if isinstance(node, ast.Name) else None
        value = self._value(name) if name is not None else node
        installed = _INSTALLED & set(Path(self._source.path).parts)
        if installed or not isinstance(value, ast.Constant) or type(value.value) is not int or value.value != want.old:
            raise NotCertain(say("not_literal", argument=want.argument))
        return self._source.place(value), name

    def edits(self, wants: Iterable[Want], sizes: Iterable[int]) -> list[Edit]:
        """Return the edits that change arguments, and nothing else that the file tells.

        Args:
            wants: the arguments.
            sizes: all that change with them.

        Raises:
            NotCertain: a number is used for something else as well.
        """
        numbers = {want: self.number(want) for want in wants}
        places, changing = {want.place for want in numbers}, {size for size in sizes if size > 1}
        for name in dict.fromkeys(name for _, name in numbers.values() if name is not None):
            if not places.issuperset(self._source.place(use) for use in self._loads(name)):
                raise NotCertain(say("used_otherwise", number=name))
        news = {place: want.new for want, (place, _) in numbers.items()}
        for node, found in self._elsewhere:
            if (same := found & changing) and self._source.place(node) not in news:
                raise NotCertain(say("used_otherwise", number=str(min(same))))
        return [Edit(place, self._source.segment(place), str(new)) for place, new in news.items()]

    def _loads(self, name: str) -> list[ast.Name]:
        return [use for use in self._names.get(name, ()) if isinstance(use.ctx, ast.Load)]

    @cached_property
    def _arguments(self) -> dict[tuple[Place, str], ast.expr]:
        """The arguments that stand in calls of Keras' own layers."""
        return {
            (given.place, given.name): given.node
            for call in self._source.calls()
            for given in call.arguments.values()
            if call.name.startswith("keras.layers.")
            and given.node in (*call.node.args, *(keyword.value for keyword in call.node.keywords))
        }

    @cached_property
    def _names(self) -> dict[str, list[ast.Name]]:
        found: dict[str, list[ast.Name]] = {}
        for node in ast.walk(self._source.tree):
            if isinstance(node, ast.Name):
                found.setdefault(node.id, []).append(node)
        return found

    @cached_property
    def _assigned(self) -> dict[str, ast.expr]:
        """What modules and functions assign to names, where no code reads names by their text."""
        bodies = (n.body for n in ast.walk(self._source.tree) if isinstance(n, ast.Module | ast.FunctionDef))
        found: dict[str, ast.expr] = {}
        for node in itertools.chain(*bodies) if not _REFLECTS.search(self._source.text) else ():
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    found[name] = value
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                    found[name] = value
        return found

    def _value(self, name: str) -> ast.expr | None:
        """Return what a name is assigned; None where it is more than once, or stands for anything but a variable."""
        once = self._words[name] == len(self._names.get(name, ())) == len(self._loads(name)) + 1
        word = re.compile(rf"\b{re.escape(name)}\b")
        plain = once and not any(word.search(other.text) for other in self._others)
        return self._assigned.get(name) if plain else None

    @cached_property
    def _words(self) -> Counter[str]:
        return Counter(re.findall(r"\w+", self._source.text))

    @cached_property
    def _elsewhere(self) -> list[tuple[ast.expr, set[int]]]:
        """The numbers that stand, or come about, anywhere but in the arguments of layers and the names for these."""
        calls = self._source.calls()
        layers = {call.node for call in calls if call.name.startswith("keras.layers.")}
        own: set[ast.AST] = {
            a for a in self._arguments.values() if not any(isinstance(n, ast.Call) for n in ast.walk(a))
        }
        for name, value in self._assigned.items():
            loads = self._loads(name) if isinstance(value, ast.Constant) else []
            if loads and own.issuperset(loads) and self._value(name) is not None:
                own.update((value, *self._names[name]))
        found, todo = list[tuple[ast.expr, set[int]]](), [*ast.iter_child_nodes(self._source.tree)]
        for node in todo:
            if node in own:
                continue
            todo += ast.iter_child_nodes(node)
            if isinstance(node, ast.expr) and node not in layers:
                values = [_written(node), *(known.value for known in self._source.seen(node))]
                found.append((node, {number for value in values for number in _sizes(value)}))
        return [(node, numbers) for node, numbers in found if numbers]


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
