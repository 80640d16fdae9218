"""Why the cost of products is unknown: which sizes are, and what the user can give."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

from tcprobe.gemm.ops import gemms_of
from tcprobe.keras.catalogue import class_of, rank_of
from tcprobe.rules.model.step import Step
from tcprobe.schema.finding_kinds import InputSize, WhyKind
from tcprobe.schema.model import Layer
from tcprobe.schema.op import OpRecord, Shape, product
from tcprobe.schema.statement import Statement, say

Sizes: TypeAlias = tuple[str | int, ...]
_SPACE: Final[dict[int | None, tuple[InputSize, ...]]] = {
    1: ("length",),
    2: ("height", "width"),
    3: ("depth", "height", "width"),
}
_LETTERS: Final[dict[InputSize, str]] = {"depth": "D", "height": "H", "width": "W", "length": "L", "channels": "C"}


def why_unknown(step: Step, indexes: Iterable[int]) -> Statement[WhyKind]:
    """Return why these products, at least one of which has no cost, are not all predicted."""
    missing = [index for index in indexes if step.cost(index) is None]
    open_ = [index for index in missing if not _sized(step.model.products[index].record)]
    if missing and not open_:
        dtype = step.dtype_of(missing[0])
        return say("dtype_unknown") if dtype is None else say("dtype_without_rate", dtype=dtype, gpu=step.gpu.name)
    names = dict.fromkeys(step.model.products[index].layer for index in open_)
    layers = [layer for name in names if name is not None and (layer := step.sizes.layers.get(name)) is not None]
    takes = tuple(dict.fromkeys(size for layer in layers for size in _open_inputs(layer)))
    own = tuple(dict.fromkeys(size for layer in layers for size in _open_settings(layer)))
    return say("product_sizes_unknown", takes=takes, own=own, input=_open_input(step, layers) if takes else None)


def _sized(record: OpRecord) -> bool:
    gemms = gemms_of(record)
    return bool(gemms) and all(product((g.m, g.n, g.k, g.batch)) for g in gemms)


def _shape_of(layer: Layer) -> Shape | None:
    """Return the shape of what a layer takes, the samples too, as far as its class tells; None of unknown rank."""
    known = layer.input_shapes[0] if layer.input_shapes else None
    space = rank_of(layer.kind)
    return (None,) * (space + 2) if known is None and space is not None else known


def _names(layer: Layer, rank: int) -> tuple[InputSize, ...]:
    """Return what each size of a sample is; channels are taken to be last, as nothing here knows better."""
    space = _SPACE.get(rank_of(layer.kind), ())
    if space and rank == len(space) + 2:
        return (*space, "channels")
    rows: list[InputSize] = ["rows"] * (rank - 2)
    return (*rows, "features")[: rank - 1]  # none of a sample that is one number


def _open_inputs(layer: Layer) -> list[InputSize]:
    shape = _shape_of(layer)
    if shape is None:
        return ["shape"]
    names = _names(layer, len(shape))
    return list(dict.fromkeys(name for name, size in zip(names, shape[1:], strict=True) if size is None))


def _open_settings(layer: Layer) -> list[str]:
    """Return the sizes that a layer sets itself and that are not known."""
    row = class_of(layer.kind)
    told = (row.output,) if row.output else ()
    return [name for name in told if not isinstance(layer.config.get(name), int)]


def _open_input(step: Step, layers: list[Layer]) -> Sizes | None:
    """Return the model's input that the layers hang on, with a letter for each unknown size.

    Empty where its rank is unknown too; None where something on the way was not followed, so that giving the
    input's sizes would tell nothing of these layers.
    """
    queue, seen = list(layers), {layer.name for layer in layers}
    for layer in queue:
        if not layer.inputs_from and layer.is_first and _open_inputs(layer):
            return _lettered(layer)
        before = [known for name in layer.inputs_from if (known := step.sizes.layers.get(name)) is not None]
        queue += [known for known in before if known.name not in seen]
        seen.update(known.name for known in before)
    return None


def _lettered(layer: Layer) -> Sizes:
    """Return what a layer takes with a letter for each unknown size, empty where its rank is unknown too."""
    shape = _shape_of(layer)
    if shape is None:
        return ()
    names = _names(layer, len(shape))
    return tuple(_LETTERS.get(name, "N") if size is None else size for name, size in zip(names, shape[1:], strict=True))
