"""TC107: finds an LSTM or GRU whose settings keep it off cuDNN."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tcprobe.keras.catalogue import class_of
from tcprobe.keras.products.rnn import meets
from tcprobe.rules.base import Says, Subject
from tcprobe.schema.finding import Finding
from tcprobe.schema.model import Layer
from tcprobe.schema.statement import About, Both, say

SAYS: Final[Says] = {
    "off_cudnn": lambda subject, settings: Both(
        f"{subject} cannot use cuDNN", f"{', '.join(settings)}; it runs time step by time step"
    ),
    "setting": lambda name, value, need: f"{name}={value!r} (cuDNN needs {need!r})",
    "sequence_unknown": "how much slower depends on the length of the sequence and is not predicted",
}


def tc107(subject: Subject) -> Iterator[Finding]:
    """Yield one warning per layer with settings that keep it off cuDNN; unknown settings are assumed to be fine."""
    for layer in subject.model.layers:
        against = _against(layer)
        if not against:
            continue
        settings = tuple(say("setting", name=n, value=layer.config[n], need=need) for n, need in against.items())
        first = next(iter(against))
        yield Finding(
            code="TC107",
            says=say("off_cudnn", subject=About(layer.class_name, layer.name), settings=settings),
            place=layer.arguments.get(first) or layer.place,
            severity="note" if layer.config.get("activation") == "softmax" else "warning",  # it puts out choices
            layer=layer.name,
            layer_class=layer.class_name,
            dimension=first,
            dtype=layer.dtype,
            why=say("sequence_unknown"),
        )


def _against(layer: Layer) -> dict[str, Any]:
    """Return the settings that keep a layer off cuDNN, with what it needs; an activation of None is linear."""
    return {
        name: need
        for name, need in class_of(layer.kind).cudnn
        if name in layer.config
        and (meets(layer.config, name, need) is False or (isinstance(need, str) and layer.config[name] is None))
    }
