"""How the layers of a model hang together, looked up once for all changes that are followed through it."""

from __future__ import annotations

from collections.abc import Callable

from tcprobe.schema.model import Layer, Model, Product
from tcprobe.schema.place import Place


class Graph:
    """The layers of a model, by what a change of one of them asks.

    Args:
        model: the model.
        understood: says of a layer whether its products need no look: they fit whatever it takes.

    Attributes:
        layers: by name.
        takers: layers that take the output of each layer, by its name.
        fed: names of all layers whose output a layer takes.
        made_at: layers by an argument's name and where it stands, several where a loop or a function makes them.
        forward: the products of each layer's forward pass, by its name.
        own_products: by the name of a layer, the first product of the user's own that works on its output: its
            number and its op.
    """

    def __init__(self, model: Model, understood: Callable[[Layer], bool]) -> None:
        self.layers = {layer.name: layer for layer in model.layers}
        self.takers: dict[str, list[Layer]] = {}
        self.fed: set[str] = set()
        self.made_at: dict[tuple[str, Place], list[Layer]] = {}
        self.forward: dict[str, list[Product]] = {}
        self.own_products: dict[str, tuple[int, str]] = {}
        for layer in model.layers:
            self._read_layer(layer)
        for index, product in enumerate(model.products):
            if product.record.pass_ in (None, "forward"):
                self._read_product(index, product, understood)

    def _read_layer(self, layer: Layer) -> None:
        self.fed.update(layer.inputs_from)
        for name in dict.fromkeys((*layer.inputs_from, *layer.also_from)):
            self.takers.setdefault(name, []).append(layer)
        for argument, place in layer.arguments.items():
            self.made_at.setdefault((argument, place), []).append(layer)

    def _read_product(self, index: int, product: Product, understood: Callable[[Layer], bool]) -> None:
        if product.layer is not None:
            self.forward.setdefault(product.layer, []).append(product)
        layer = self.layers.get(product.layer or "")
        if layer is None or not understood(layer):
            for name in product.inputs_from:
                self.own_products.setdefault(name, (index, product.op))
