"""From a file's source to a model, and from a traced model's lines back to the arguments in the source."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from tcprobe.audit.source.answers import Answers
from tcprobe.audit.source.outside.imported import parsed_before
from tcprobe.audit.source.program import follow_source
from tcprobe.schema.model import InputShape, Layer, Model
from tcprobe.schema.place import Place
from tcprobe.source.calls import Call
from tcprobe.source.source import Source


def read_source(path: Path | str, tree: str | None = None, shapes: Sequence[InputShape] = ()) -> Source:
    """Read and parse a file, to be followed when its values are asked for.

    Args:
        path: the file.
        tree: absolute path of the folder that is audited, whose other files are followed where it uses them; None
            where the file was named by itself: then those of its package, or beside it.
        shapes: of models' inputs, for what the code leaves open.

    Raises:
        MissingInput, UnreadableInput, WrongFormat: as `Source.read` does.
    """
    follow = partial(follow_source, tree=tree, shapes=shapes)
    before = parsed_before(str(path))
    return before.followed(follow) if before is not None else Source.read(path, follow)


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
        One model for the file, with every layer that it constructs; nothing where it constructs none.
    """
    from tcprobe.audit.source.model import source_model

    readings = source.readings
    assert isinstance(readings, Answers), f"{source.path} was not read by read_source"
    model = source_model(readings.state, batch)
    return [model] if model.layers or model.unseen else []


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
    call = _call(source, layer.place.line, layer)
    if call is None:
        return layer
    arguments = {argument.name: argument.place for argument in call.arguments.values()}
    inner = _wrapped(source, call)
    return replace(layer, place=call.place, arguments={**inner, **arguments})


def _call(source: Source, line: int, layer: Layer) -> Call | None:
    """Return the call that constructs a layer: of its own class, else of Keras' (an alias, a partial)."""
    for name in dict.fromkeys((layer.class_name, layer.kind)):
        found = source.call_at(line, name)
        if found is not None:
            return found
    return None


def _wrapped(source: Source, call: Call) -> dict[str, Place]:
    """Return the places of what the layer inside a wrapper is given, where it stands in the same call."""
    layer = call.arguments.get("layer")
    if layer is None or not isinstance(layer.node, ast.Call):
        return {}
    return {argument.name: argument.place for argument in source.call_of(layer.node).arguments.values()}
