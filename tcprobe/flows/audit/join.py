"""Joins the models of a file that were traced with what its source shows besides: no layer counts twice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from msgspec.structs import replace

from tcprobe.schema.model import FixedBy, Layer, Model, Place, Product, Unseen

UNREACHED: Final = "importing the file does not construct it: --run runs the file as a script, --mode source reads it"
REST: Final = "the traced script was left before it came to these layers: they are read from the source"
UNSURE: Final = "behind the point where the script was left, lines that were traced may make layers of other sizes"
_Line: TypeAlias = tuple[str, int]
_NOWHERE: Final = ("", 0)
_Sizes: TypeAlias = tuple[int | None, int | None]


def with_fixed(model: Model, read: Sequence[Model]) -> Model:
    """Return a traced model with what its source shows: what sets layers' sizes, at their calls, and hidden GPUs.

    Where only their line is known, and the source shows that of some of its layers alone, nothing is said.
    """
    told: dict[Place | _Line, set[FixedBy | None]] = {}
    for layer in (layer for one in read for layer in one.layers):
        for where in (layer.place, _line(layer)):
            told.setdefault(where or _NOWHERE, set()).add(layer.fixed_by)
    layers = []
    for layer in model.layers:
        found = told.get(layer.place or _NOWHERE) or told.get(_line(layer), set())
        layers.append(replace(layer, fixed_by=next(iter(found))) if len(found) == 1 else layer)
    return replace(model, layers=tuple(layers), gpu_hidden=any(one.gpu_hidden for one in read))


def join(traced: Sequence[Model], read: Iterable[Model]) -> list[Model]:
    """Return the traced models of a file that was left before its end, and behind them what its source has besides."""
    rest, unsure = _besides(traced, read)
    if unsure:
        lines = ", ".join(map(str, unsure))
        traced = [replace(model, notes=(*model.notes, f"{UNSURE} ({lines}): they are not judged")) for model in traced]
    return [*traced, *(replace(model, notes=(*model.notes, REST)) for model in rest)]


def with_unreached(traced: Sequence[Model], read: Iterable[Model]) -> list[Model]:
    """Return the traced models of a file with its other layers, which were read, among what was not judged."""
    first, *others = traced
    layers = [layer for model in _besides(traced, read)[0] for layer in model.layers]
    unseen = [
        Unseen(f"{x.class_name} '{x.name}'", UNREACHED, x.place, x.name) for x in layers if _line(x)[0] == first.file
    ]
    return [replace(first, unseen=(*first.unseen, *unseen)), *others]


def _besides(traced: Iterable[Model], read: Iterable[Model]) -> tuple[list[Model], list[int]]:
    """Return what was read of layers that were not traced, and the lines of which it cannot be told what was traced.

    At a line that was traced, sizes that were not are those of another model that a function makes, if the source has
    those that were traced as well. If not, it is wrong about that line, or about what comes by it.
    """
    seen, known = _sizes_by_line(traced := list(traced)), _sizes_by_line(read := list(read))
    more = {line for line in seen if any(None not in sizes for sizes in known.get(line, set()) - seen[line])}
    for product in (product for model in traced for product in model.products):
        seen.setdefault(_line(product), set())
    unsure = {line for line in more if not seen[line] <= known[line]}
    rest = []
    for model in read:
        layers = [layer for layer in model.layers if _line(layer) not in seen]
        layers += [x for x in model.layers if _line(x) in more - unsure and _sizes(x) not in seen[_line(x)]]
        names = {layer.name for layer in layers}
        products = tuple(product for product in model.products if product.layer in names)
        unseen = tuple(u for u in model.unseen if u.place is not None and (u.place.file, u.place.line) not in seen)
        rest += [replace(model, layers=tuple(layers), products=products, unseen=unseen)] if layers else []
    return rest, sorted(line for _, line in unsure)


def _sizes_by_line(models: Iterable[Model]) -> dict[_Line, set[_Sizes]]:
    """Return which sizes the layers of each line have."""
    found: dict[_Line, set[_Sizes]] = {}
    for layer in (layer for model in models for layer in model.layers):
        found.setdefault(_line(layer), set()).add(_sizes(layer))
    return found


def _line(made: Layer | Product) -> _Line:
    return (made.place.file, made.place.line) if made.place is not None else _NOWHERE


def _sizes(layer: Layer) -> _Sizes:
    """Return the last sizes of what goes into a layer and what comes out."""
    shapes = (layer.input_shapes[0] if layer.input_shapes else None), layer.output_shape
    given, made = (shape[-1] if shape else None for shape in shapes)
    return given, made
