"""What is known of one class of Keras: the columns of the catalogue."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from msgspec import Struct

LayerKind: TypeAlias = Literal[
    "dense", "einsum", "projection", "embedding", "attention",
    "convolution", "transposed convolution", "depthwise convolution", "separable convolution",
    "local convolution", "recurrent convolution", "recurrent", "cell", "wrapper",
    "normalization", "activation", "dropout", "identity", "merging", "reshaping", "pooling", "padding",
    "statistics", "image", "encoding", "sound", "function", "input", "base", "model", "sequence",
    "optimizer", "policy", "unknown",
]  # fmt: skip
"""What a class is. ``encoding`` turns text or numbers into tokens, ``statistics`` learns what its data is like,
``function`` runs code that is not Keras', ``base`` is inherited from, ``sequence`` is the model of that name."""

PREPARES: Final[frozenset[LayerKind]] = frozenset({"statistics", "image", "encoding", "sound"})
"""Kinds that prepare data for a model."""

Features: TypeAlias = Literal["own", "elementwise", "kept", "merged", "joined", "reshaped", "scaled", "unknown"]
"""How many features a layer puts out: as many as it is told (``own``); those that it takes, each by itself
(``elementwise``); as many as it takes (``kept``); as many as each of its inputs has (``merged``), or all together
(``joined``); the same elements in another shape (``reshaped``); some times as many (``scaled``)."""

ShapeRule: TypeAlias = Literal[
    "same", "dense", "einsum", "heads", "query", "embedding", "reversible", "recurrent", "recurrent convolution",
    "convolved", "transposed", "pooled", "pooled globally", "pooled to size", "upsampled", "padded", "cropped",
    "flattened", "reshaped", "permuted", "repeated", "resized image", "broadcast", "concatenated", "dotted", "attended",
    "time distributed", "bidirectional", "wrapped", "unknown",
]  # fmt: skip
"""Names of the rules of `tcprobe.keras.shapes`."""

ProductRule: TypeAlias = Literal[
    "dense", "einsum", "reversible", "dot", "multi head", "grouped query", "attention", "convolution",
    "transposed convolution", "separable convolution", "recurrent convolution", "recurrent", "time distributed",
    "bidirectional", "wrapped", "none",
]  # fmt: skip
"""Names of the rules of `tcprobe.keras.products`; ``none`` where a layer multiplies no matrices."""


class KerasClass(Struct, frozen=True, eq=False):
    """One class of Keras."""

    name: str  # the class's own name
    kind: LayerKind  # what it is
    # names of the positional ones in the order of Keras 3's signature (of Keras 2's where Keras 3 lacks the class), up
    # to the first initializer, regularizer or constraint
    arguments: tuple[str, ...] = ()
    keras_2: tuple[str, ...] | None = None  # the same of Keras 2, where `arguments` does not start so; else None
    aliases: tuple[str, ...] = ()  # other and old names in the same module
    module: str = "layers"  # the module that it is imported from, below ``keras``; empty for ``keras`` itself
    paths: tuple[str, ...] = ()  # other names that it has been imported by, from ``keras`` on
    rank: int | None = None  # number of spatial dimensions; None where it has none, or any
    output: str | None = None  # argument that sets how many features it puts out
    inner: tuple[str, ...] = ()  # arguments that are sizes inside the layer: nothing outside depends on them
    counts: tuple[str, ...] = ()  # arguments that a size is divided into or multiplied by
    structure: tuple[str, ...] = ()  # further arguments without which its products are not known
    settings: tuple[str, ...] = ()  # further settings that shapes, products and rules read
    editable: tuple[str, ...] = ()  # arguments that a fix may change
    features: Features = "unknown"  # how many it puts out
    shape: ShapeRule = "unknown"  # which rule gives the shape of its output
    products: ProductRule = "none"  # which rule gives the products of a training step
    weights: bool = False  # whether it has weights that are trained
    gates: int = 0  # of a recurrent layer or its cell: matrices side by side; 0 for others
    # settings with the value that cuDNN needs, which is Keras' default; empty where cuDNN has no such layer
    cudnn: tuple[tuple[str, str | float | bool], ...] = ()

    @property
    def path(self) -> str:
        """The canonical name to import it by: ``keras.layers.Dense``."""
        return ".".join(part for part in ("keras", self.module, self.name) if part)

    @property
    def hands_on(self) -> bool:
        """Whether its output has the features of its input: whole, in another shape, or with those of others."""
        return self.features not in ("own", "unknown")

    @property
    def dimensions(self) -> int | None:
        """How many dimensions its input must have, the batch among them; None where it takes any."""
        if self.rank is not None:
            return self.rank + (3 if self.kind == "recurrent convolution" else 2)
        return 3 if self.kind == "recurrent" and self.gates else None
