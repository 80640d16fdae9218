"""Builds ready-made models without their trained weights where those cannot be had."""

from __future__ import annotations

import inspect
from typing import Any, Callable, List

from ...core.gaps import Guard
from ...tensorflow.hooks.patch import Patches, everywhere

MISTAKES = (TypeError, ValueError)  # in what the user asked for


class Pretrained:
    """Hooks the functions of `keras.applications`; weights change no size.

    Args:
        made: every model that was constructed; one that a failed function has left is taken out.
        gaps: what cannot be hooked.
    """

    def __init__(self, made: List[Any], gaps: Any) -> None:
        self._made = made
        self._gaps = gaps
        self._patches = Patches()

    def on_keras(self, keras: Any) -> None:
        """Hook every function of one Keras that takes weights."""
        for name, function in list(vars(getattr(keras, "applications", None) or object).items()):
            if inspect.isfunction(function) and "weights" in inspect.signature(function).parameters:
                for module in everywhere(name, function):
                    with Guard(self._gaps, "keras.applications." + name):
                        self._patches.method(module, name, self._built)

    def _built(self, original: Callable[..., Any]) -> Callable[..., Any]:
        made = self._made

        def build(*args: Any, **kwds: Any) -> Any:
            before = len(made)
            try:
                return original(*args, **kwds)
            except MISTAKES:
                raise
            except Exception:
                given = inspect.signature(original).bind(*args, **kwds)
                if given.arguments.get("weights", "imagenet") is None:
                    raise
                del made[before:]
                given.arguments["weights"] = None
                return original(*given.args, **given.kwargs)

        return build
