"""What tracing a file did not reach, told from its source."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from tcprobe.errors import InputError
from tcprobe.schema.model import Model, Unseen
from tcprobe.schema.place import Place

UNREACHED: Final = "importing the file does not construct it: --run runs the file as a script, --mode source reads it"


def judges(error: InputError, read: Iterable[Model]) -> bool:
    """Return whether the source says more than that the file cannot be run: that it holds layers, or no model."""
    from tcprobe.audit.trace.traced import NoModel

    return isinstance(error, NoModel) or any(model.layers or model.unseen or model.not_judged for model in read)


def not_in(traced: Iterable[Model], read: Iterable[Model]) -> list[Model]:
    """Return of models that were read what stands at lines of which no layer was traced."""
    seen = {(p.file, p.line) for model in traced for layer in model.layers if (p := layer.place) is not None}

    def is_new(place: Place | None) -> bool:
        return place is not None and (place.file, place.line) not in seen

    rest = []
    for model in read:
        layers = tuple(layer for layer in model.layers if is_new(layer.place))
        names = {layer.name for layer in layers}
        products = tuple(p for p in model.products if p.layer in names)
        unseen = tuple(u for u in model.unseen if is_new(u.place))
        rest += [replace(model, layers=layers, products=products, unseen=unseen)] if layers else []
    return rest


def with_unreached(traced: Sequence[Model], rest: Iterable[Model]) -> list[Model]:
    """Return traced models with the file's other layers, which were read, among what was not judged."""
    first, *others = traced
    places = [(layer, place) for model in rest for layer in model.layers if (place := layer.place) is not None]
    unseen = tuple(Unseen(f"{layer.class_name} '{layer.name}'", UNREACHED, place) for layer, place in places)
    return [
        replace(first, unseen=(*first.unseen, *(u for u in unseen if u.place and u.place.file == first.file))),
        *others,
    ]
