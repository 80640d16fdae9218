"""Hooks what trains, tests and saves models: once a step is known, these return at once."""

from __future__ import annotations

import inspect
from typing import Any, Callable, Dict, Optional

from ...core.gaps import Gaps, Guard
from ...tensorflow.hooks.patch import Patches, defining_class, everywhere
from .outputs import Loaded, as_many, history_of
from .stops import Ended, Stopped

WRITING = frozenset(("BackupAndRestore", "CSVLogger", "ModelCheckpoint", "RemoteMonitor", "TensorBoard"))
Method = Callable[..., Any]


class Onward:
    """What the hooks ask and tell; by default nothing goes on.

    Attributes:
        going: whether the script goes on after a training step.
        inside: whether a hooked `fit`, `evaluate` or `predict` is running.
        pretends: whether functions that do not train return zeros.
        begin: called before the first training call.
        close: called when a step is known.
        failed: called with a model, what its `fit` raised, and the `batch_size` that was given.
        over: whether a first training call, or an exception, lies behind.
    """

    def __init__(self) -> None:
        self.going = False
        self.inside = False
        self.pretends = False
        self.begin: Callable[[], None] = lambda: None
        self.close: Callable[[], None] = lambda: None
        self.failed: Callable[[Any, BaseException, Any], None] = lambda *_: None
        self.over = False


class Methods:
    """Hooks the methods of models, of any Keras, and the checkpoints of TensorFlow."""

    def __init__(self, onward: Onward, gaps: Gaps) -> None:
        self._on = onward
        self._gaps = gaps
        self._patches = Patches()
        self._saved: Dict[str, Any] = {}
        self._tf: Any = None

    def on_tensorflow(self, tf: Any) -> None:
        """Hook what saves and restores."""
        self._tf = tf
        self._hook(tf.saved_model, "save", self._nothing)
        for name in ("save", "write"):
            self._hook(tf.train.Checkpoint, name, self._path)
        self._hook(tf.train.CheckpointManager, "save", self._nothing)
        self._hook(tf.train.Checkpoint, "restore", self._restored)
        self._hook(tf.summary, "create_file_writer", self._no_writer)

    def on_keras(self, keras: Any) -> None:
        """Hook the methods of models."""
        makers = {"fit": self._fit(keras), "evaluate": self._evaluated, "predict": self._predicted, "save": self._kept}
        makers.update(save_weights=self._nothing, export=self._nothing, load_weights=self._loaded)
        for name, make in makers.items():
            if hasattr(keras.Model, name):
                self._hook(defining_class(keras.Model, name), name, make)
        self._everywhere(keras.models, "load_model", self._load)
        self._everywhere(keras.models, "save_model", self._kept)

    def _hook(self, owner: Any, name: str, make: Callable[[Method], Method]) -> None:
        with Guard(self._gaps, "%s.%s" % (getattr(owner, "__name__", owner), name)):
            self._patches.method(owner, name, make)

    def _everywhere(self, owner: Any, name: str, make: Callable[[Method], Method]) -> None:
        """Hook a function in every module that has it."""
        original = getattr(owner, name, None)
        for module in everywhere(name, original) if original is not None else ():
            self._hook(module, name, make)

    def _later(self, answer: Callable[[Method, Any, Any], Any]) -> Callable[[Method], Method]:
        """Return a maker of methods that `answer` once the first training call lies behind."""
        on = self._on

        def make(original: Method) -> Method:
            def method(*args: Any, **kwds: Any) -> Any:
                if not on.over or on.inside:
                    return original(*args, **kwds)
                return answer(original, args, kwds)

            return method

        return make

    def _nothing(self, original: Method) -> Method:
        return self._later(lambda *_: None)(original)

    def _path(self, original: Method) -> Method:
        return self._later(lambda _, args, kwds: next(iter([*args[1:], *kwds.values()]), ""))(original)

    def _no_writer(self, original: Method) -> Method:
        return self._later(lambda *_: self._tf.summary.create_noop_writer())(original)

    def _restored(self, original: Method) -> Method:
        return self._later(lambda restore, args, _: restore(args[0], None))(original)

    def _loaded(self, original: Method) -> Method:
        return self._later(lambda *_: Loaded())(original)

    def _kept(self, original: Method) -> Method:
        """Remember under which name a model would have been saved."""

        def keep(_: Method, args: Any, kwds: Any) -> None:
            values = [*args, *kwds.values()]
            self._saved[str(values[1]) if len(values) > 1 else ""] = values[0]

        return self._later(keep)(original)

    def _load(self, original: Method) -> Method:
        """Return the model that was not saved, where its name is asked for."""

        def load(really: Method, args: Any, kwds: Any) -> Any:
            path = str(next(iter([*args, *kwds.values()]), ""))
            return self._saved[path] if path in self._saved else really(*args, **kwds)

        return self._later(load)(original)

    def _evaluated(self, original: Method) -> Method:
        return self._later(self._one_batch)(original)

    def _predicted(self, original: Method) -> Method:
        def predict(really: Method, args: Any, kwds: Any) -> Any:
            x = kwds["x"] if "x" in kwds else args[1]
            return as_many(self._tf, self._one_batch(really, args, kwds), x)

        return self._later(predict)(original)

    def _one_batch(self, original: Method, args: Any, kwds: Any) -> Any:
        """Call a method for one batch; its function is traced, and returns zeros."""
        given = inspect.signature(original).bind(*args, **kwds)
        given.arguments.update({"steps": 1, "verbose": 0, "callbacks": None})
        self._on.inside = self._on.pretends = True
        try:
            return original(*given.args, **given.kwargs)
        finally:
            self._on.inside = self._on.pretends = False

    def _fit(self, keras: Any) -> Callable[[Method], Method]:
        def make(original: Method) -> Method:
            def fit(model: Any, *args: Any, **kwds: Any) -> Any:
                if not self._on.going or self._on.inside or not self._tf.executing_eagerly():
                    return original(model, *args, **kwds)
                self._on.begin()
                given = inspect.signature(original).bind(model, *args, **kwds)
                given.arguments["callbacks"] = quiet(given.arguments.get("callbacks"))
                batch = given.arguments.get("batch_size")
                result = self._trained(model, lambda: original(*given.args, **given.kwargs), batch)
                return history_of(keras, model) if result is None else result

            return fit

        return make

    def _trained(self, model: Any, fit: Callable[[], Any], batch: Any) -> Optional[Any]:
        """Return what a `fit` returns; None where it was ended because its step is known, or failed."""
        self._on.inside = True
        try:
            return fit()
        except Ended:
            raise
        except Stopped:
            return None
        except Exception as error:
            self._on.failed(model, error, batch)
            return None
        finally:
            self._on.inside = False
            self._on.close()


def quiet(callbacks: Any) -> Any:
    """Return callbacks without those of Keras' own that write files."""
    if not isinstance(callbacks, (list, tuple)):
        return callbacks
    return [c for c in callbacks if not any(k.__name__ in WRITING for k in type(c).__mro__)]
