"""Whether XLA compiles a step: as the program says, else as Keras 3 does of itself on a machine with a GPU."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from tcprobe.audit.source.kinds import Arguments
from tcprobe.audit.source.state import State
from tcprobe.audit.source.steps.apart import SourceStep
from tcprobe.keras.products.sequences import uses_cudnn
from tcprobe.keras.settings import wrapped_layer
from tcprobe.schema.model import Layer
from tcprobe.source.source import Source
from tcprobe.source.values import Known

_KERAS_2: Final = ("tf_keras", "TF_USE_LEGACY_KERAS", "tensorflow.python.keras", "fit_generator")
"""What only code for Keras 2 says, which never uses XLA by itself."""
_AUTO: Final = "auto"


class Xla(Struct, frozen=True):
    """Whether XLA compiles a step; None where unknown. `by_default` where that is what Keras does of itself."""

    on: bool | None
    by_default: bool = False


def compiled_by_xla(state: State, step: SourceStep, layers: Iterable[Layer]) -> Xla:
    """Return whether XLA compiles a step of these layers."""
    source = state.source
    if state.auto_jit:
        return Xla(True)
    if step.training is not None and step.training.tapes:
        return Xla(_flagged(source, of_models=False))
    given = [state.compiled[id(model)] for model in step.models if id(model) in state.compiled]
    if (flag := _told(given)) is not None:
        return Xla(flag)
    if not given and step.training is None and _has_own_loop(source):
        return Xla(_flagged(source, of_models=False))
    if not given and (flagged := _flagged(source, of_models=True)) is not None:
        return Xla(flagged)
    return Xla(*_by_default(source, layers))


def _told(given: Iterable[Arguments]) -> bool | None:
    """Return the ``jit_compile`` of the calls of `compile`; None where Keras decides."""
    for arguments in given:
        eager, flag = (arguments.keywords.get(name) for name in ("run_eagerly", "jit_compile"))
        if isinstance(eager, Known) and eager.value is True:
            return False
        if isinstance(flag, Known) and flag.value != _AUTO:
            return bool(flag.value)
    return None


def _by_default(source: Source, layers: Iterable[Layer]) -> tuple[bool, bool]:
    """Return what Keras decides, and whether that is an assumption.

    Source: keras/src/trainers/trainer.py, `_resolve_auto_jit_compile` and `model_supports_jit`; keras/src/layers/rnn,
    `supports_jit`.
    """
    if any(word in source.text for word in _KERAS_2):
        return False, False
    if any(map(_in_cudnn, layers)) or any(_forbids(call.name) for call in source.calls()):
        return False, False
    return True, True


def _forbids(name: str) -> bool:
    """Return whether a call keeps Keras from compiling: a strategy, or ops that must be deterministic."""
    last = name.rpartition(".")[2]
    return last == "enable_op_determinism" or (name.startswith("tensorflow.distribute.") and last.endswith("Strategy"))


def _in_cudnn(layer: Layer) -> bool:
    kind, config = (wrapped_layer(layer.config) if layer.kind == "Bidirectional" else None) or (
        layer.kind,
        layer.config,
    )
    return uses_cudnn(kind, config) is not False


def _has_own_loop(source: Source) -> bool:
    """Return whether a file takes gradients itself and compiles no model."""
    return "GradientTape" in source.text and ".compile(" not in source.text


def _flagged(source: Source, of_models: bool) -> bool | None:
    """Return True where every ``jit_compile`` that is given to models, else to functions, is True; None elsewhere."""
    calls = [node for node in source.walk.calls if (getattr(node.func, "attr", "") == "compile") is of_models]
    found = [source.known(k.value) for node in calls for k in node.keywords if k.arg == "jit_compile"]
    return True if found and all(known is not None and known.value is True for known in found) else None
