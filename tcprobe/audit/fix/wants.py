"""Which arguments must change together: those that `Step.link` names, in every model that the same calls make.

What lies between those layers must take any number of features by itself; whatever else ends the search. A size stands
as a whole number in a layer's own call, or as a name that the file assigns once: all that the name is used for must be
arguments that are wanted to change; and the number may stand nowhere else but in layers' calls, as whether it means the
same size there (a shape, a slice, a loop, data) nobody can tell.
"""

from __future__ import annotations

import ast
import itertools
import operator
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from msgspec.structs import replace

from tcprobe.keras.catalogue import LAYER_CLASSES, class_of
from tcprobe.rules.model.sizes import INPUTS, OUTPUTS, LinkedChange, grouped
from tcprobe.schema.finding import Edit, Finding, LinkReason, RefusalKind
from tcprobe.schema.model import Layer, Model, Place
from tcprobe.schema.statement import Statement, say

if TYPE_CHECKING:
    from tcprobe.rules.model.step import Step
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


Read: TypeAlias = "Callable[[Source], list[Model]]"
"""What returns the models that a file constructs."""
FixRefusal: TypeAlias = Statement[RefusalKind | LinkReason]
_INNER: Final = frozenset(name for row in LAYER_CLASSES for name in row.inner if name in row.editable)
"""Sizes inside an attention layer: nothing outside depends on them."""
_INPUT_SHAPES: Final = frozenset(("input_shape", "input_dim", "batch_input_shape"))
_PASSED: Final = frozenset(("elementwise", "kept", "merged", "joined", "scaled"))


class NotCertain(Exception):
    """What must change cannot be told for certain; `why` says why."""

    def __init__(self, why: FixRefusal) -> None:
        super().__init__(why)
        self.why = why


class Want(NamedTuple):
    """An argument that must become another number."""

    place: Place
    argument: str
    old: int
    new: int


class Wants(NamedTuple):
    """Arguments that must change together, and every size that does, also those of what layers take."""

    arguments: dict[Want, None]
    sizes: set[int]


def wants_of(finding: Finding, step: Step, steps: Sequence[Step]) -> Wants:
    """Return what a finding's suggestion changes.

    Args:
        finding: of a size.
        step: of its model.
        steps: of all models that are known, its own among them.

    Raises:
        NotCertain: what depends on the size is unknown.
    """
    dimension, wants = finding.dimension or "", Wants({}, set())
    todo = [(step, LinkedChange(finding.layer or "", dimension, finding.size or 0, finding.suggested or 0))]
    seen: set[tuple[Step, str]] = set()
    for at, change in todo:
        if (at, change.layer) in seen:
            continue
        changes = (change,) if dimension in _INNER else _linked(at, change)
        wants.sizes.update(c.old for c in changes)
        for own in changes:
            layer = at.sizes.layers.get(own.layer)
            if layer is None or own.dimension not in (_output_of(layer), *class_of(layer.kind).inner):
                continue  # it takes what changes, and is built from that
            seen.add((at, layer.name))
            want = _want(layer, own)
            wants.arguments[want] = None
            made = [(other, x) for other in steps for x in _made_at(other).get(want.place, ())]
            if not any(other.model.mode == "source" for other, _ in made):
                raise NotCertain(say("unproven"))  # other code may make layers there as well
            for other, x in made:
                _want(x, own)
                todo.append((other, replace(own, layer=x.name)))
    if not wants.arguments:
        raise NotCertain(say("set_elsewhere"))
    return wants


def _output_of(layer: Layer) -> str | None:
    """Return the argument that sets how many features a layer puts out, where a fix may change it."""
    row = class_of(layer.class_name)
    return row.output if row.output in row.editable else None


def _want(layer: Layer, change: LinkedChange) -> Want:
    """Return the argument of a layer that a change is about."""
    place = layer.arguments.get(change.dimension)
    if place is None or layer.config.get(change.dimension) != change.old:
        raise NotCertain(say("not_literal", argument=change.dimension))
    return Want(place, change.dimension, change.old, change.new)


def _linked(step: Step, change: LinkedChange) -> tuple[LinkedChange, ...]:
    """Return a change with all that must come with it, where everything behind it fits any size or is among these."""
    linked, layers = step.link(change), step.sizes.layers
    if linked.reason is not None:
        raise NotCertain(linked.reason)
    changed = dict.fromkeys(c.layer for c in linked.changes if c.dimension in OUTPUTS and c.layer in layers)
    fed = {c.layer for c in linked.changes if c.dimension in INPUTS}
    todo, reached = list(changed), dict[str, Layer]()
    for name in todo:
        takers = _takers(step).get(name, ())
        if not takers or layers[name].is_last is not False or _takes_state(layers[name]):
            raise NotCertain(say("linked_unknown", layer=name))
        reached.update((taker.name, taker) for taker in takers)
        passing = [taker.name for taker in takers if _output_of(taker) is None and taker.name not in changed]
        todo += passing
        changed.update(dict.fromkeys(passing))
    bad = [taker.name for taker in reached.values() if not _fits(taker, fed, changed)]
    bad += _own_products(step, changed, {c.old for c in linked.changes})
    if bad:
        raise NotCertain(say("linked_unknown", layer=bad[0]))
    return linked.changes


def _fits(taker: Layer, fed: set[str], changed: Iterable[str]) -> bool:
    """Say whether a layer takes what changes and nothing else, and is built from that or hands it on."""
    if taker.is_first is not False or _takes_state(taker) or not _INPUT_SHAPES.isdisjoint(taker.arguments):
        return False
    whole = {*taker.inputs_from, *taker.also_from}.issubset(changed)
    if _output_of(taker) is not None:
        return whole and taker.name in fed
    row = class_of(taker.class_name)
    passes = row.features in _PASSED and row.kind != "statistics" and "groups" not in row.counts
    layers_alone = len(taker.input_shapes) <= len(taker.inputs_from)  # an input of the model is no layer
    return layers_alone and (passes or row.name == "Flatten") and (whole or row.features == "joined")


def _takes_state(layer: Layer) -> bool:
    """Say whether a recurrent layer takes an initial state, whose size is that of its own units."""
    several = len(set(layer.inputs_from)) > 1 or len(layer.input_shapes) > 1 or bool(layer.also_from)
    return class_of(layer.kind).kind == "recurrent" and several


def _own_products(step: Step, changed: Iterable[str], sizes: set[int]) -> list[str]:
    """Return the products of the user's own that may work on what changes: the other operand would have to fit."""
    reached = set(changed)
    own = [op for op, taken, behind in _products(step) if not (sizes.isdisjoint(taken) and reached.isdisjoint(behind))]
    return [*own, *(unknown.name for unknown in step.model.not_judged if unknown.kind == "product")]


@lru_cache(maxsize=16)
def _products(step: Step) -> list[tuple[str, set[int | None], tuple[str, ...]]]:
    """Return op, sizes and layers before it of each product that is no layer's own arithmetic."""
    layers = step.sizes.layers
    return [
        (product.op, {size for shape in product.record.input_shapes for size in shape or ()}, product.inputs_from)
        for product in step.model.products
        if (layer := layers.get(product.layer or "")) is None or class_of(layer.class_name).products == "none"
    ]


@lru_cache(maxsize=16)
def _takers(step: Step) -> dict[str, tuple[Layer, ...]]:
    """Return the layers that take the output of each layer, in whatever call, by its name."""
    layers = step.model.layers
    return grouped((name, x) for x in layers for name in dict.fromkeys((*x.inputs_from, *x.also_from)))


@lru_cache(maxsize=16)
def _made_at(step: Step) -> dict[Place, tuple[Layer, ...]]:
    """Return the layers that each argument in the source is given to, by where it stands."""
    return grouped((place, x) for x in step.model.layers for place in x.arguments.values())
