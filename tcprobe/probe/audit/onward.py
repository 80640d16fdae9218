"""Hooks what trains, tests, saves and loads models: once a step is known, these return at once, or end."""

from __future__ import annotations

import inspect
import signal
import threading
from typing import Any, Callable, Dict, List, Optional

from ..core.gaps import Gaps, Guard
from ..tensorflow.graph.shapes import batch_of_dataset
from ..tensorflow.hooks.fits import Fits
from ..tensorflow.hooks.patch import Patches, everywhere

AGAIN = 2.0  # seconds after which a script that swallows its end is told again
MOST_TIMES = 3


class Stopped(BaseException):
    """The training step is known; what trains need not run on. No `except Exception` of the user's catches it."""


class Ended(Stopped):
    """Nothing of the script runs any more; the text says why."""


class Limit:
    """A timer for the main thread; without one in this system, or in another thread, the caller's limit stands.

    Args:
        seconds: until the script is ended.
        last: called when it has swallowed that several times.
    """

    def __init__(self, seconds: float, last: Callable[[], None]) -> None:
        self._seconds = seconds
        self._last = last
        self._times = 0
        self._began = False

    def start(self) -> None:
        """Begin to count, the first time."""
        main = threading.current_thread() is threading.main_thread()
        if not self._began and main and hasattr(signal, "setitimer"):
            self._began = True
            signal.signal(signal.SIGALRM, self._over)
            signal.setitimer(signal.ITIMER_REAL, self._seconds, AGAIN)

    def stop(self) -> None:
        """End the count: what comes now is not the script's."""
        if self._began:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def _over(self, *_: Any) -> None:
        self._times += 1
        if self._times > MOST_TIMES:
            self._last()
        raise Ended("%g s after its first training call" % self._seconds)


WRITING = frozenset(("BackupAndRestore", "CSVLogger", "ModelCheckpoint", "RemoteMonitor", "TensorBoard"))
MISTAKES = (TypeError, ValueError)  # in what the user asks a ready-made model for
UNKNOWN = float("nan")
Method = Callable[..., Any]
Answer = Callable[[Method, Any, Any], Any]


class Onward:
    """What the hooks ask and tell; by default nothing goes on.

    Attributes:
        going: whether the script goes on after a training step.
        inside: whether a hooked `fit`, `evaluate` or `predict` is running.
        pretends: whether functions that do not train return zeros.
        begin: called before the first training call.
        close: called when a step is known.
        failed: called with a model, what its `fit` raised, and the `batch_size` that was given.
        over: whether a first training call lies behind.
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
    """Hooks the methods of models and the functions on them, of any Keras, and the checkpoints of TensorFlow.

    Args:
        onward: whether and how the script goes on.
        fits: the hook on `fit`.
        made: every model that was constructed; one that a failed function has left is taken out.
        gaps: what cannot be hooked.
    """

    def __init__(self, onward: Onward, fits: Fits, made: List[Any], gaps: Gaps) -> None:
        self._on = onward
        self._made = made
        self._gaps = gaps
        self._patches = Patches()
        self._saved: Dict[str, Any] = {}
        self._tf: Any = None
        fits.on_fit = self._fit

    def on_tensorflow(self, tf: Any) -> None:
        """Hook what saves and restores."""
        self._tf = tf
        self._instead(tf.saved_model, "save", _nothing)
        for name in ("save", "write"):
            self._instead(tf.train.Checkpoint, name, lambda _, args, kwds: next(iter([*args[1:], *kwds.values()]), ""))
        self._instead(tf.train.CheckpointManager, "save", _nothing)
        self._instead(tf.train.Checkpoint, "restore", lambda restore, args, _: restore(args[0], None))
        self._instead(tf.summary, "create_file_writer", lambda *_: tf.summary.create_noop_writer())

    def on_keras(self, keras: Any) -> None:
        """Hook the methods of models, and the functions that make one of what lies elsewhere."""
        answers: Dict[str, Answer] = {"evaluate": self._one_batch, "predict": self._predict, "save": self._keep}
        answers.update(save_weights=_nothing, export=_nothing, load_weights=lambda *_: Loaded())
        for name, answer in answers.items():
            if hasattr(keras.Model, name):
                self._instead(keras.Model, name, answer)
        self._everywhere(keras.models, "load_model", self._later(self._load))
        self._everywhere(keras.models, "save_model", self._later(self._keep))
        ready_made = getattr(keras, "applications", None)
        for name, function in list(vars(ready_made or object).items()):
            if inspect.isfunction(function) and "weights" in inspect.signature(function).parameters:
                self._everywhere(ready_made, name, self._built)

    def _hook(self, owner: Any, name: str, make: Callable[[Method], Method]) -> None:
        with Guard(self._gaps, "%s.%s" % (getattr(owner, "__name__", owner), name)):
            self._patches.method(owner, name, make)

    def _everywhere(self, owner: Any, name: str, make: Callable[[Method], Method]) -> None:
        """Hook a function in every module that has it."""
        original = getattr(owner, name, None)
        for module in everywhere(name, original) if original is not None else ():
            self._hook(module, name, make)

    def _instead(self, owner: Any, name: str, answer: Answer) -> None:
        self._hook(owner, name, self._later(answer))

    def _later(self, answer: Answer) -> Callable[[Method], Method]:
        """Return a maker of methods that `answer` once the first training call lies behind."""
        on = self._on

        def make(original: Method) -> Method:
            def method(*args: Any, **kwds: Any) -> Any:
                if not on.over or on.inside:
                    return original(*args, **kwds)
                return answer(original, args, kwds)

            return method

        return make

    def _keep(self, _: Method, args: Any, kwds: Any) -> None:
        """Remember under which name a model would have been saved."""
        values = [*args, *kwds.values()]
        self._saved[str(values[1]) if len(values) > 1 else ""] = values[0]

    def _load(self, really: Method, args: Any, kwds: Any) -> Any:
        """Return the model that was not saved, where its name is asked for."""
        path = str(next(iter([*args, *kwds.values()]), ""))
        return self._saved[path] if path in self._saved else really(*args, **kwds)

    def _predict(self, really: Method, args: Any, kwds: Any) -> Any:
        x = kwds["x"] if "x" in kwds else args[1]
        return as_many(self._tf, self._one_batch(really, args, kwds), x)

    def _one_batch(self, original: Method, args: Any, kwds: Any) -> Any:
        """Call a method for one batch; its function is traced, and returns zeros."""
        given = inspect.signature(original).bind(*args, **kwds)
        given.arguments.update({"steps": 1, "verbose": 0, "callbacks": None})
        self._on.inside = self._on.pretends = True
        try:
            return original(*given.args, **given.kwargs)
        finally:
            self._on.inside = self._on.pretends = False

    def _fit(self, keras: Any, original: Method, model: Any, args: Any, kwds: Any) -> Any:
        on = self._on
        if not on.going or on.inside or not self._tf.executing_eagerly():
            return original(model, *args, **kwds)
        on.close()  # what trained before it is a step of its own
        on.begin()
        given = inspect.signature(original).bind(model, *args, **kwds)
        given.arguments["callbacks"] = quiet(given.arguments.get("callbacks"))
        batch = given.arguments.get("batch_size")
        result = self._trained(model, lambda: original(*given.args, **given.kwargs), batch)
        return history_of(keras, model) if result is None else result

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

    def _built(self, original: Method) -> Method:
        """Build a ready-made model without its trained weights where those cannot be had: they change no size."""
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


def _nothing(*_: Any) -> None:
    """Stand for what writes."""


def quiet(callbacks: Any) -> Any:
    """Return callbacks without those of Keras' own that write files."""
    if not isinstance(callbacks, (list, tuple)):
        return callbacks
    return [c for c in callbacks if not any(k.__name__ in WRITING for k in type(c).__mro__)]


# What a call that was not run would have returned


class NoHistory(dict):  # type: ignore[type-arg]
    """The history of a `fit` that trained nothing: one value that is not a number, by whatever name."""

    def __missing__(self, name: str) -> Any:
        return self.setdefault(name, [UNKNOWN])


class Loaded:
    """What `load_weights` of older versions returns: its methods check what was loaded."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *_, **__: self


def history_of(keras: Any, model: Any) -> Any:
    """Return the History of a `fit` that trained nothing; the model gets it too, as from Keras."""
    history = keras.callbacks.History()
    history.history = NoHistory(loss=[UNKNOWN])
    history.epoch = [0]
    model.history = history
    return history


def zeros_of(tf: Any, concrete: Any, batch: Optional[int]) -> Any:
    """Return zeros of a traced function's outputs; `...` where one has no zeros (resources, unknown ranks)."""

    def zero(value: Any) -> Any:
        if hasattr(value, "has_value") and hasattr(value, "element_spec"):  # Keras 3.13 returns an Optional
            return tf.experimental.Optional.from_value(tf.nest.map_structure(zero, value.element_spec))
        shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
        if dtype is None:
            return value
        if dtype.name in ("resource", "variant") or shape is None or shape.rank is None:
            raise TypeError("no zeros of %s" % (value,))
        sizes = [int(d) if d is not None else 1 for d in shape.as_list()]
        if sizes and shape.as_list()[0] is None and batch:
            sizes[0] = batch
        return tf.zeros(sizes, dtype)

    try:
        return tf.nest.map_structure(zero, concrete.structured_outputs)
    except TypeError:
        return ...


def as_many(tf: Any, outputs: Any, x: Any) -> Any:
    """Return zeros like the predictions of one batch, for as many samples as `x` has."""
    import numpy

    rows = next((int(a.shape[0]) for a in tf.nest.flatten(outputs) if getattr(a, "shape", ())), 1)
    count = _samples(tf, x, rows)
    return tf.nest.map_structure(lambda a: numpy.zeros((count, *a.shape[1:]), a.dtype), outputs)


def _samples(tf: Any, x: Any, rows: int) -> int:
    """Return how many samples `x` has; a batch of them where it does not say."""
    if isinstance(x, tf.data.Dataset):
        batches = int(x.cardinality())
        return batches * (batch_of_dataset(x) or rows) if batches > 0 else rows
    first = next((a for a in tf.nest.flatten(x) if getattr(a, "shape", ())), None)
    if first is not None and first.shape[0] is not None:
        return int(first.shape[0])
    return len(x) * rows if hasattr(x, "__len__") else rows
