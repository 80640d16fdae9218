"""TC107: finds an LSTM or GRU whose settings keep it off cuDNN."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tcprobe.keras.catalogue import class_of
from tcprobe.keras.products.sequences import meets
from tcprobe.rules.base import Says, Subject
from tcprobe.schema.finding import Finding, WhyKind
from tcprobe.schema.model import Layer
from tcprobe.schema.statement import About, Both, Statement, say

FEW_STEPS: Final = 4
"""A loop over so few time steps costs no more than launches elsewhere in the step; a judgement."""
SAYS: Final[Says] = {
    "off_cudnn": lambda subject, settings: Both(
        f"{subject} cannot use cuDNN", f"{', '.join(settings)}; it runs time step by time step"
    ),
    "setting": lambda name, value, need: f"{name}={value!r} (cuDNN needs {need!r})",
    "few_time_steps": lambda steps: f"its sequences have {steps} time step{'s' * (steps > 1)}, so little is lost",
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
        steps = _time_steps(layer)
        few = steps is not None and steps <= FEW_STEPS
        why: Statement[WhyKind] = say("few_time_steps", steps=steps) if few else say("sequence_unknown")
        chooses = layer.config.get("activation") == "softmax"  # it puts out choices
        yield Finding(
            code="TC107",
            says=say("off_cudnn", subject=About(layer.class_name, layer.name), settings=settings),
            place=layer.arguments.get(first) or layer.place,
            severity="note" if few or chooses else "warning",
            layer=layer.name,
            layer_class=layer.class_name,
            dimension=first,
            dtype=layer.dtype,
            why=why,
        )


def _time_steps(layer: Layer) -> int | None:
    """Return how many time steps a layer's sequences have, None where unknown; they are batch first."""
    shape = layer.input_shapes[0] if layer.input_shapes else None
    return shape[1] if shape is not None and len(shape) == 3 and not layer.config.get("time_major") else None


def _against(layer: Layer) -> dict[str, Any]:
    """Return the settings that keep a layer off cuDNN, with what it needs; an activation of None is linear."""
    return {
        name: need
        for name, need in class_of(layer.kind).cudnn
        if name in layer.config
        and (meets(layer.config, name, need) is False or (isinstance(need, str) and layer.config[name] is None))
    }
