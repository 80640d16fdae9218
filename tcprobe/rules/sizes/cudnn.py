"""TC107: finds an LSTM or GRU whose settings keep it off cuDNN."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tcprobe.keras.catalogue import class_of
from tcprobe.rules.base import Says, Subject
from tcprobe.schema.finding import Finding
from tcprobe.schema.model import Layer
from tcprobe.schema.statement import About, Both, say

SAYS: Final[Says] = {
    "off_cudnn": lambda subject, settings: Both(
        f"{subject} cannot use cuDNN", f"{', '.join(settings)}; it runs as a loop over time steps"
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
