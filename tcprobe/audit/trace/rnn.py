"""Recurrent layers of a step that was traced on a CPU, as a GPU would run them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from tcprobe.keras.catalogue import class_of
from tcprobe.keras.products.layers import records_of
from tcprobe.schema.model import Layer, Product
from tcprobe.schema.op import OpRecord

Loop = Literal["none", "known", "unknown"]
"""What stands around a product: no loop, one that runs a known number of times, or one that the data ends."""


def on_a_gpu(
    products: Sequence[Product],
    loops: Sequence[Loop],
    layers: Sequence[Layer],
    fed: Mapping[str, tuple[str, ...]],
    batch: int,
) -> tuple[list[Product], list[bool]]:
    """Return the products with those of recurrent layers as on a GPU, and which still run an unknown number of times.

    On a CPU Keras runs LSTM and GRU as a loop; on a GPU they are one cuDNN op where its conditions hold. The loop's
    products are replaced; those of a cell that is no Keras layer's own run once for each time step.

    Args:
        products: as traced.
        loops: what stands around each.
        layers: of the same step.
        fed: names of the layers whose features a layer takes.
        batch: samples of the step.
    """
    replaced: dict[int, list[Product]] = {}
    counted: dict[int, Product] = {}
    for layer in (layer for layer in layers if class_of(layer.kind).kind == "recurrent"):
        own = [i for i, product in enumerate(products) if _inside(product.layer, layer.name)]
        inside = [i for i in own if loops[i] != "none"]
        if not own or (not inside and layer.config.get("unroll") is not False):  # an eager step has no loop to see
            continue
        records = records_of(layer, batch)
        shape = layer.input_shapes[0] if layer.input_shapes else None
        steps = shape[1] if shape is not None and len(shape) == 3 else None
        if records:
            made = [_product(layer, record, calls, products[own[0]], fed) for record, calls in records]
            replaced.update({i: made if i == own[0] else [] for i in own})
        elif steps is not None:
            open_ended = (i for i in inside if loops[i] == "unknown")
            counted.update({i: replace(products[i], calls=float(steps * layer.calls)) for i in open_ended})
    result: list[Product] = []
    unknown: list[bool] = []
    for i, product in enumerate(products):
        new = replaced.get(i, [counted.get(i, product)])
        result += new
        unknown += [loops[i] == "unknown" and i not in replaced and i not in counted] * len(new)
    return result, unknown


def _product(
    layer: Layer, record: OpRecord, calls: float, instead: Product, fed: Mapping[str, tuple[str, ...]]
) -> Product:
    return Product(
        record=record,
        layer=layer.name,
        calls=calls,
        op=f"{layer.name}/{record.op_type}",
        inputs_from=fed.get(layer.name, ()) if record.pass_ == "forward" else (),
        compiled=instead.compiled,
        place=layer.place,
    )


def _inside(name: str | None, layer: str) -> bool:
    return name is not None and (name == layer or name.startswith(layer + "/"))
