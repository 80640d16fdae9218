"""Hooks Keras: train functions, optimizers and validation."""

from __future__ import annotations

import sys
import threading
from functools import partial
from typing import Any, Callable, List, Optional, Sequence, Set, Tuple

from ..core.framework import Core
from .calls import CallWatch
from .gradients import Gradients
from .hooks.patch import Patches, around
from .precision import on_model

VALIDATION = ("evaluate", "test_on_batch")


class Applies(threading.local):
    """Whether this thread applies an optimizer: one method calls another (`apply_gradients`, `apply`, the inner's)."""

    now = False


class KerasHooks:
    """Hooks keras, tf_keras, or the tf.keras of Keras 2.

    Args:
        core: the probe's.
        calls: is told of train functions and updates.
        updates: is told of each optimizer once.
        gradients: counts what they are given; None where that was not asked for.
    """

    def __init__(
        self, core: Core, calls: CallWatch, updates: Callable[[Any], None], gradients: Optional[Gradients]
    ) -> None:
        self._updates = updates
        self._gradients = gradients
        self._seen: Set[int] = set()
        self._config = core.config
        self._training = core.training
        self._gaps = core.gaps
        self._calls = calls
        self._patches = Patches()
        self._applies = Applies()

    def install(self, keras: Any) -> None:
        """Hook one Keras; a second call with the same does nothing."""
        run, method = self._gaps.run, self._patches.method
        run("Keras fit", lambda: method(keras.Model, "make_train_function", self._making))
        run("Keras optimizers", lambda: self.hook_optimizers(optimizer_classes(keras)))
        validating = around(self._gaps, "ranges", self._calls.tapes.validates)
        for name in VALIDATION:
            run("Keras validation", partial(method, keras.Model, name, validating))

    def _making(self, make: Any) -> Any:
        def make_train_function(model: Any, *args: Any, **kwds: Any) -> Any:
            before = model.__dict__.get("train_function")
            if before is None:
                on_model(model, self._config.xla, self._gaps)
            result = make(model, *args, **kwds)
            steps = self._gaps.run("Keras fit", lambda: steps_per_execution(model)) or 1
            made = model.__dict__.get("train_function") is not before
            self._calls.steps.fits(steps, str(model.name) if made else None)
            return result

        return make_train_function

    def hook_optimizers(self, roots: Sequence[Any]) -> None:
        """Hook the methods of optimizers, given their classes."""
        for kind in (kind for root in roots for kind in root.__mro__):
            for name in ("apply_gradients", "apply"):
                if name in vars(kind):
                    self._patches.method(kind, name, self._applying)

    def _applying(self, apply: Any) -> Any:
        calls, gaps, name, applies = self._calls, self._gaps, apply.__name__, self._applies
        seen, updates, gradients = self._seen, self._updates, self._gradients
        threads = self._training.threads
        here = threads.here

        def applying(optimizer: Any, *args: Any, **kwds: Any) -> Any:
            if applies.now:
                return apply(optimizer, *args, **kwds)
            within = here.current is not None or not calls.hooks.eager()
            if not within and (here.inside or (threads.callers and threads.is_inside())):
                return apply(optimizer, *args, **kwds)
            if id(optimizer) not in seen:
                seen.add(id(optimizer))
                gaps.run("loss scale", partial(updates, optimizer))
            applies.now, after = True, None
            try:
                args, kwds, variables = given(optimizer, name, args, kwds)
                if gradients is not None:
                    gaps.run("gradients", partial(gradients.given, optimizer, name, args, kwds, variables))
                if within:
                    gaps.run("traces", partial(calls.applies, optimizer, variables))
                else:
                    after = gaps.run("eager optimizers", partial(calls.tapes.applies, variables))
                return apply(optimizer, *args, **kwds)
            finally:
                applies.now = False
                if after is not None:
                    after()

        return applying


def given(optimizer: Any, name: str, args: Any, kwds: Any) -> Tuple[Any, Any, List[Any]]:
    """Return the arguments of an optimizer's method, to be used once, and the variables that they update.

    Args:
        optimizer: any Keras', or one of ``tf.compat.v1.train``.
        name: ``apply_gradients`` or ``apply``.
        args, kwds: of its call.
    """
    if name == "apply_gradients":
        pairs = args[0] if args else kwds.get("grads_and_vars", ())
        if hasattr(pairs, "__next__"):
            pairs = list(pairs)  # a zip is read once
            args, kwds = ((pairs, *args[1:]), kwds) if args else (args, dict(kwds, grads_and_vars=pairs))
        try:
            return args, kwds, [variable for gradient, variable in pairs if gradient is not None]
        except (TypeError, ValueError):
            return args, kwds, []  # what is wrong in a call, the optimizer itself has to say
    variables = args[1] if len(args) > 1 else kwds.get("trainable_variables")
    return args, kwds, _listed(getattr(optimizer, "_trainable_variables", ()) if variables is None else variables)


def _listed(value: Any) -> List[Any]:
    """Return what can be read again as a list; nothing for what cannot."""
    return list(value) if hasattr(value, "__iter__") and not hasattr(value, "__next__") else []


def optimizer_classes(keras: Any) -> List[Any]:
    """Return the roots of this Keras' optimizers, the legacy ones and the wrapper for loss scaling too."""
    optimizers = keras.optimizers
    legacy = getattr(optimizers, "legacy", None)
    mixed = getattr(keras, "mixed_precision", None)
    scaling = getattr(mixed, "LossScaleOptimizer", None) or getattr(optimizers, "LossScaleOptimizer", None)
    found = [
        getattr(optimizers, "Optimizer", None),
        getattr(legacy, "Optimizer", None),
        scaling,
        # Keras 2.11 and later wrap their new optimizers in another class, which is not exported.
        getattr(sys.modules.get(str(getattr(scaling, "__module__", None))), "LossScaleOptimizerV3", None),
    ]
    return [kind for kind in found if isinstance(kind, type)]


def steps_per_execution(model: Any) -> int:
    """Return the steps that one call of the model's train function makes."""
    value = getattr(model, "steps_per_execution", None)
    value = getattr(model, "_steps_per_execution", None) if value is None else value
    if value is None:
        return 1
    return int(value.numpy()) if hasattr(value, "numpy") else int(value)
