"""From a file's source to a model, and from a traced model's lines back to the arguments in the source."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path

from msgspec.structs import replace

from tcprobe.audit.source.given import GivenShapes
from tcprobe.audit.source.imported import parsed_before
from tcprobe.audit.source.program import Program
from tcprobe.audit.source.state import MOST_VALUES
from tcprobe.audit.source.values import SpentError, known_of
from tcprobe.errors import UnreadableInput
from tcprobe.schema.model import FixedBy, InputShape, Layer, Model, Place
from tcprobe.source.calls import Argument, Call
from tcprobe.source.scopes import owner
from tcprobe.source.source import Source
from tcprobe.source.values import Known, same


def read_source(
    path: Path | str, tree: str | None = None, shapes: Sequence[InputShape] = (), argv: tuple[str, ...] = ()
) -> Source:
    """Read and parse a file, to be followed when its values are asked for.

    Args:
        path: the file.
        tree: absolute path of the folder that is audited, whose other files are followed where it uses them; None
            where the file was named by itself: then those of its package, or beside it.
        shapes: of models' inputs, for what the code leaves open.
        argv: the script's own arguments, which its options take in place of their defaults.

    Raises:
        MissingInput, UnreadableInput, WrongFormat, UnsupportedVersion: as `Source.read` does.
    """
    follow = partial(follow_source, tree=tree, shapes=shapes, argv=argv)
    before = parsed_before(str(path), tree)
    return before.followed(follow) if before is not None else Source.read(path, follow, tree)


def decode_source(data: bytes, path: str, shapes: Sequence[InputShape] = ()) -> Source:
    """Parse the bytes of a file, likewise.

    Raises:
        UnreadableInput, WrongFormat, UnsupportedVersion: as `Source.decode` does.
    """
    return Source.decode(data, path, partial(follow_source, shapes=shapes))


def parse_source(text: str, path: str) -> Source:
    """Parse the text of a file, likewise.

    Raises:
        WrongFormat: it is no Python.
    """
    return Source.parse(text, path, follow_source)


def read_model(source: Source, batch: int | None = None) -> list[Model]:
    """Return the model that a file constructs, read from its syntax alone.

    Nothing of the file is executed or imported. Functions are entered where they are called with what they are
    called with, loops over constants run through; what nothing calls is entered once, its parameters at their
    defaults. A size that this does not tell is left out of the layer's settings as ``...`` and named in `unseen`.

    Args:
        source: the file.
        batch: samples of a step; None to take the file's own where it has one alone.

    Returns:
        One model for the file, with every layer that it constructs; nothing where it holds none, known or not.

    Raises:
        UnreadableInput: lists that it gives to models hold more than can be followed, or one another.
    """
    return _constructed(source, batch, apart=False)


def read_steps(source: Source, batch: int | None = None) -> list[Model]:
    """Return the same as one model for each step that the file trains, or would train; some layers are in several.

    Raises:
        UnreadableInput: as `read_model`.
    """
    return _constructed(source, batch, apart=True)


def _constructed(source: Source, batch: int | None, apart: bool) -> list[Model]:
    from tcprobe.audit.source.model import Constructed

    readings = source.readings
    assert isinstance(readings, Answers), f"{source.path} was not read by read_source"
    try:
        made = Constructed(readings.state, batch)
        models = made.steps() if apart else made.model()
    except SpentError:
        raise UnreadableInput(source.path, "makes models of more layers and lists than can be followed") from None
    return [model for model in models if model.layers or model.products or model.unseen or model.not_judged]


def with_arguments(model: Model, sources: Mapping[str, Source]) -> Model:
    """Return a traced model with the places of its layers' arguments, and their own exact places.

    Args:
        model: its layers have a file and a line each.
        sources: the user's files by absolute path; a layer of another file stays as it is, as does one whose call
            the line does not tell apart from another.
    """
    layers = tuple(_with_arguments(layer, sources) for layer in model.layers)
    places = {layer.name: layer.place for layer in layers}
    products = tuple(
        replace(p, place=places[p.layer]) if p.layer in places and p.place is not None else p for p in model.products
    )
    return replace(model, layers=layers, products=products)


def _with_arguments(layer: Layer, sources: Mapping[str, Source]) -> Layer:
    source = sources.get(layer.place.file) if layer.place is not None else None
    if source is None or layer.place is None:
        return layer
    call = _call(source, layer.place, layer)
    if call is None:
        return replace(layer, fixed_by=_made_elsewhere(source, layer.place) or layer.fixed_by)
    arguments = {argument.name: argument.place for argument in call.arguments.values()}
    inner = _wrapped(source, call)
    return replace(layer, place=call.place, arguments={**inner, **arguments})


def _made_elsewhere(source: Source, place: Place) -> FixedBy | None:
    """Return whether a line makes its layers by a ready-made model or one that was saved; None where by neither."""
    names = [call.name for call in source.calls() if call.place.line == place.line]
    if any(name.endswith(("load_model", "model_from_json")) for name in names):
        return "file"
    return "package" if any(".applications." in name for name in names) else None


def _call(source: Source, place: Place, layer: Layer) -> Call | None:
    """Return the call that constructs a layer: the one at its exact place, else the one that its line tells.

    Of its own class, else of Keras' (an alias, a partial). Of several on its line the one that gives what it has.
    """
    on_line = [call for call in source.calls() if call.place.line == place.line]
    exact = [call for call in on_line if call.place == place]
    for name in dict.fromkeys((layer.class_name, layer.kind)):
        named = [call for call in exact if call.name.rpartition(".")[2] == name]
        found = named[0] if named else source.call_at(place.line, name) or _only(on_line, name, layer)
        if found is not None:
            return found
    return None


def _only(calls: Sequence[Call], name: str, layer: Layer) -> Call | None:
    """Return the one call of a class that may have given a layer its settings; None where several may, or none."""
    named = [call for call in calls if call.name.rpartition(".")[2] == name]
    fitting = [call for call in named if not any(_differs(argument, layer) for argument in call.arguments.values())]
    return fitting[0] if len(fitting) == 1 else None


def _differs(argument: Argument, layer: Layer) -> bool:
    known, own = argument.known, layer.config.get(argument.name)
    plain = known is not None and isinstance(known.value, int | str)
    return plain and isinstance(own, int | str) and known is not None and known.value != own


def _wrapped(source: Source, call: Call) -> dict[str, Place]:
    """Return the places of what the layer inside a wrapper is given, where it stands in the same call."""
    layer = call.arguments.get("layer")
    if layer is None or not isinstance(layer.node, ast.Call):
        return {}
    return {argument.name: argument.place for argument in source.call_of(layer.node).arguments.values()}


# What each expression of a followed file is, from what was seen on the way


def follow_source(
    source: Source, tree: str | None = None, shapes: Sequence[InputShape] = (), argv: tuple[str, ...] = ()
) -> Answers:
    """Follow a file, with others of the folder `tree` where it uses them; return what that shows."""
    program = Program(source, tree, GivenShapes(shapes), argv)
    program.follow()
    return Answers(program)


class Answers:
    """Answers about the expressions of one file.

    Attributes:
        state: what following the file found.
    """

    def __init__(self, state: Program) -> None:
        self.state = state
        self._seen = state.seen
        self._source = state.source
        self._known: dict[ast.expr, Known | None] = {}
        self._open: dict[ast.AST, bool] = {}

    def known(self, node: ast.expr) -> Known | None:
        """Return the value of an expression where the file alone decides it; None otherwise."""
        if node not in self._known:
            values = self.seen(node)
            whole = len(values) == len(self._seen.values.get(node, ()))
            sure = whole and all(self._is_sure(value, node) for value in values)
            sure = sure and (not self._seen.cut or self._stands_alone(node))  # what was seen may not be all
            self._known[node] = same(values) if sure else None
        return self._known[node]

    def seen(self, node: ast.expr) -> list[Known]:
        """Return the constants that an expression was seen to be; none beyond `MOST_VALUES`."""
        values = self._seen.values.get(node, [])
        return [k for v in values if (k := known_of(v)) is not None] if len(values) <= MOST_VALUES else []

    def likely(self, node: ast.expr) -> Known | None:
        """Return the one constant that an expression was always seen to be, though an option may make it another."""
        values = self.seen(node)
        return same(values) if len(values) == len(self._seen.values.get(node, ())) else None

    def _is_sure(self, known: Known, node: ast.expr) -> bool:
        """Return whether a constant can be no other; of a list the syntax may speak against the whole."""
        whole = isinstance(known.value, tuple) and not known.abroad
        doubts = known.doubts | (self._source.routines.of_part(node) if whole else frozenset())
        return not known.abroad and not any(doubt is None or self._is_open(doubt) for doubt in doubts)

    def _stands_alone(self, node: ast.expr) -> bool:
        """Return whether an expression is of literals and of the module's constants alone."""
        parts = [part for part in ast.walk(node) if isinstance(part, ast.Name | ast.Call)]
        return all(isinstance(part, ast.Name) and self._is_constant(part) for part in parts)

    def _is_constant(self, name: ast.Name) -> bool:
        walk = self._source.walk
        scope, module = walk.uses.get(name), walk.module
        found = owner(scope, name.id) if scope is not None else None
        once = found is not None and found[0] is module and len(module.bindings[name.id]) == 1
        values = self._seen.values.get(name, [None])
        return once and name.id not in module.shared and all(type(v) is Known for v in values)

    def _is_open(self, function: ast.AST) -> bool:
        """Return whether a function may be called in ways that were not seen; one of another file always may."""
        if function not in self._open:
            sites = self._source.routines.sites(function)
            closed = function in self._own and self._followed.issuperset(sites.calls)
            self._open[function] = sites.escapes or not closed
        return self._open[function]

    @cached_property
    def _own(self) -> set[ast.AST]:
        """The functions of the file."""
        return set(self._source.walk.functions)

    @cached_property
    def _followed(self) -> set[ast.AST]:
        """The calls of which all is known that they enter, and the nodes of statements that never run."""
        bodies = [skipped.body for skipped in self._seen.skipped.values() if skipped.dead]
        dead = {node for body in bodies for statement in body for node in ast.walk(statement)}
        return dead | (self._seen.calls - self._seen.unsure)
