"""What is known of one class of Keras: the columns of the catalogue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

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


@dataclass(frozen=True, slots=True, eq=False)
class KerasClass:
    """One class of Keras.

    Attributes:
        name: the class's own name.
        kind: what it is.
        arguments: names of the positional ones in the order of Keras 3's signature (of Keras 2's where Keras 3 lacks
            the class), up to the first initializer, regularizer or constraint.
        keras_2: the same of Keras 2, where `arguments` does not start so; else None.
        aliases: other and old names in the same module.
        module: the module that it is imported from, below ``keras``; empty for ``keras`` itself.
        paths: other names that it has been imported by, from ``keras`` on.
        rank: number of spatial dimensions; None where it has none, or any.
        output: argument that sets how many features it puts out.
        inner: arguments that are sizes inside the layer: nothing outside depends on them.
        counts: arguments that a size is divided into or multiplied by.
        structure: further arguments without which its products are not known.
        settings: further settings that shapes, products and rules read.
        editable: arguments that a fix may change.
        features: how many it puts out.
        shape: which rule gives the shape of its output.
        products: which rule gives the products of a training step.
        weights: whether it has weights that are trained.
        gates: of a recurrent layer or its cell: matrices side by side; 0 for others.
        cudnn: settings with the value that cuDNN needs, which is Keras' default; empty where cuDNN has no such layer.
    """

    name: str
    kind: LayerKind
    arguments: tuple[str, ...] = ()
    keras_2: tuple[str, ...] | None = None
    aliases: tuple[str, ...] = ()
    module: str = "layers"
    paths: tuple[str, ...] = ()
    rank: int | None = None
    output: str | None = None
    inner: tuple[str, ...] = ()
    counts: tuple[str, ...] = ()
    structure: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    editable: tuple[str, ...] = ()
    features: Features = "unknown"
    shape: ShapeRule = "unknown"
    products: ProductRule = "none"
    weights: bool = False
    gates: int = 0
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
