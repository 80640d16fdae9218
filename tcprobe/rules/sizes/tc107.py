"""TC107: finds an LSTM or GRU whose settings keep it off cuDNN."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tcprobe.keras.catalogue import class_of
from tcprobe.rules.base import RuleDoc, Says, Subject
from tcprobe.schema.finding import Finding
from tcprobe.schema.model import Layer
from tcprobe.schema.statement import About, say

DOC = RuleDoc(
    code="TC107",
    name="recurrent-layer-off-cudnn",
    summary="An LSTM or GRU has a setting that cuDNN does not know, so that it runs step by step.",
    explanation=(
        "Keras hands an LSTM or GRU to cuDNN, which runs the whole sequence in a few kernels, only where activation is "
        "tanh, recurrent_activation sigmoid, recurrent_dropout 0, unroll False and use_bias True, for a GRU also "
        "reset_after True; masks must be padded at the right. Any other setting makes it a loop of small products, a "
        "handful of kernels for each time step. That is often a larger loss than any size. dropout= works with cuDNN, "
        "recurrent_dropout= does not. How much is lost depends on the sequence and is not predicted."
    ),
    severity="Always a warning.",
    bad='layers.LSTM(256, activation="relu", recurrent_dropout=0.2)',
    good="layers.LSTM(256, dropout=0.2)",
    sources=("Keras 3, documentation of LSTM and GRU, and their backend for TensorFlow: conditions of the cuDNN path",),
)
SAYS: Final[Says] = {
    "off_cudnn": ("{subject} cannot use cuDNN", "{settings!c}; it runs as a loop over time steps"),
    "setting": "{name}={value!r} (cuDNN needs {need!r})",
    "sequence_unknown": "how much slower depends on the length of the sequence and is not predicted",
}


def check(subject: Subject) -> Iterator[Finding]:
    """Yield one warning per layer with settings that keep it off cuDNN; unknown settings are assumed to be fine."""
    for layer in subject.model.layers:
        against = _against(layer)
        if not against:
            continue
        settings = tuple(say("setting", name=n, value=layer.config[n], need=need) for n, need in against.items())
        first = next(iter(against))
        yield Finding(
            code=DOC.code,
            says=say("off_cudnn", subject=About(layer.class_name, layer.name), settings=settings),
            place=layer.arguments.get(first) or layer.place,
            severity="warning",
            layer=layer.name,
            layer_class=layer.class_name,
            dimension=first,
            dtype=layer.dtype,
            why=say("sequence_unknown"),
        )


def _against(layer: Layer) -> dict[str, Any]:
    needs = class_of(layer.kind).cudnn
    return {name: need for name, need in needs if name in layer.config and not _meets(layer, name, need)}


def _meets(layer: Layer, name: str, need: Any) -> bool:
    value = layer.config[name]
    if name.endswith("activation"):
        return value == need or not isinstance(value, str | None)
    if not isinstance(value, bool | int | float):
        return True
    return bool(value == need)
