"""Makes a training step for a model that comes without one, in shapes that it or the user tells; never run."""

from __future__ import annotations

import gc
import inspect
import weakref
from types import TracebackType
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple, Type

from ..constants import SAMPLES
from ..core.gaps import Gaps, Guard
from ..tensorflow.hooks.patch import Patches, defining_class
from .layers import is_model, spec_of

NOT_INPUTS = ("self", "training", "mask")
REMARK = "--input-shape %s is not taken for %s: its shape is %s in the code"


class GivenShapes:
    """Shapes of one sample, by the name of an input, a model or its class; or for any.

    Args:
        orders: name or None, and sizes, of each.

    Attributes:
        inputs: a name of each input that the code leaves open.
        remarks: what the user says against the code, one sentence each.
    """

    def __init__(self, orders: Sequence[Tuple[Optional[str], List[int]]]) -> None:
        self._shapes = [(name, list(sizes)) for name, sizes in orders]
        self.inputs: List[str] = []
        self.remarks: List[str] = []

    def answered(self, names: Iterable[str]) -> List[str]:
        """Return those of `names` that have a shape."""
        return sorted({str(name) for name, _ in self._shapes if name is not None}.intersection(names))

    def of_input(self, sizes: Sequence[Optional[int]], names: Sequence[str]) -> Optional[List[int]]:
        """Return the shape that fits the known sizes of an input: by the first of the names that has one, else any."""
        self._note_open(names, None in sizes)
        for wanted in (*names, None):
            for name, given in self._shapes:
                fits = len(given) == len(sizes) and all(s in (None, g) for s, g in zip(sizes, given))
                if name == wanted and fits:
                    return given
                if name == wanted and name is not None:
                    self._remark(name, given, sizes)
        return None

    def of_call(self, model: Any, names: Sequence[str]) -> Dict[str, List[int]]:
        """Return the shapes of a model's arguments by name, that of the only or the first as ``""``; empty if none."""
        self._note_open(names, True)
        inputs = inputs_of(model)
        by_name = {name: sizes for name, sizes in self._shapes if name in inputs}
        found = {("" if name == inputs[0] else str(name)): sizes for name, sizes in by_name.items()}
        if found:
            return found
        for wanted in (*names, None):
            for name, sizes in self._shapes:
                if name == wanted:
                    return {"": sizes}
        return {}

    def _note_open(self, names: Sequence[str], is_open: bool) -> None:
        self.inputs += [name for name in names if name][:1] if is_open else []

    def _remark(self, name: str, given: Sequence[int], sizes: Sequence[Optional[int]]) -> None:
        said, code = (",".join("?" if s is None else str(s) for s in shape) for shape in (given, sizes))
        text = REMARK % (said, name, code)
        self.remarks += [text] if text not in self.remarks else []


def inputs_of(model: Any) -> List[str]:
    """Return the arguments of a model's `call`."""
    try:
        parameters = inspect.signature(model.call).parameters
    except (TypeError, ValueError):
        return []
    return [name for name in parameters if name not in NOT_INPUTS]


class Given(NamedTuple):
    """What a model takes.

    Attributes:
        args: specifications of its positional arguments, each a structure.
        kwds: the same of its keyword arguments; values that are no tensors stand for themselves.
    """

    args: Tuple[Any, ...]
    kwds: Dict[str, Any]


class SeenInputs:
    """Remembers what models were called with, for those that do not tell themselves."""

    def __init__(self, shapes: GivenShapes) -> None:
        self.tf: Any = None
        self._shapes = shapes
        self._given: "weakref.WeakKeyDictionary[Any, Given]" = weakref.WeakKeyDictionary()

    def called(self, layer: Any, args: Any, kwds: Any) -> None:
        """Note the first call of a model; how many samples that had says nothing of training."""
        if is_model(layer) and layer not in self._given and self.tf is not None:
            spec = self.tf.nest.map_structure(self._spec, (tuple(args), dict(kwds)))
            self._given[layer] = Given(*spec)

    def of(self, model: Any, label: str) -> Optional[Given]:
        """Return what a model takes; None where neither it, nor a call, nor the user told."""
        known = self._known(model)
        names = (label, str(getattr(model, "name", "")), type(model).__name__)
        if known is not None:
            return Given(*self.tf.nest.map_structure(lambda v: self._filled(v, names), (known.args, known.kwds)))
        shapes = self._shapes.of_call(model, names)
        specs = {name: self.tf.TensorSpec([None, *sizes], "float32") for name, sizes in shapes.items()}
        return Given((specs.pop(""),) if "" in specs else (), specs) if specs else None

    def _filled(self, value: Any, names: Sequence[str]) -> Any:
        """Return a specification with the sizes that it leaves open as the user gave them."""
        if not isinstance(value, self.tf.TensorSpec) or not value.shape.rank:
            return value
        sizes = self._shapes.of_input(list(value.shape)[1:], (value.name or "", *names))
        return value if sizes is None else self.tf.TensorSpec([value.shape[0], *sizes], value.dtype, value.name)

    def _known(self, model: Any) -> Optional[Given]:
        inputs = getattr(model, "_inputs_struct", getattr(model, "_nested_inputs", None))
        if inputs is None:
            listed = getattr(model, "inputs", None)
            inputs = listed[0] if isinstance(listed, (list, tuple)) and len(listed) == 1 else listed
        if inputs is not None:
            return Given((self.tf.nest.map_structure(lambda t: self._spec(t, own=True), inputs),), {})
        if model in self._given:
            return self._given[model]
        return self._built(model)

    def _built(self, model: Any) -> Optional[Given]:
        shapes = getattr(model, "_build_shapes_dict", None) or {}
        shape = next(iter(shapes.values()), None) if len(shapes) == 1 else getattr(model, "_build_input_shape", None)
        shape = getattr(shape, "as_list", lambda: shape)()
        if not isinstance(shape, (list, tuple)) or not all(d is None or isinstance(d, int) for d in shape):
            return None
        return Given((self.tf.TensorSpec([None, *shape[1:]], "float32"),), {})

    def _spec(self, value: Any, own: bool = False) -> Any:
        if not hasattr(value, "shape") or not hasattr(value, "dtype"):
            return value
        shape, dtype = spec_of(value)
        if shape and not own:
            shape = [None, *shape[1:]]
        return self.tf.TensorSpec(shape, dtype, str(getattr(value, "name", "")).partition(":")[0] if own else None)


class OwnStep(NamedTuple):
    """A traced step of tcprobe's own.

    Attributes:
        key: of its function, for the recorder.
        batch: samples that it counts.
        batch_known: whether the model or the user said so.
    """

    key: Any
    batch: int
    batch_known: bool


def trace_step(tf: Any, model: Any, given: Given, batch: Optional[int], trains: Optional[int], own: Any) -> OwnStep:
    """Trace a training step of `model`: its outputs, a loss of them, and the gradient of every weight.

    Args:
        tf: TensorFlow.
        model: a Keras model.
        given: what it takes.
        batch: samples where the model leaves their number open; None is `SAMPLES`.
        trains: samples that the script would have trained on, None where it does not tell.
        own: set of the keys that the hooks on calls only trace.
    """
    specs = [s for s in tf.nest.flatten([given.args, given.kwds]) if isinstance(s, tf.TensorSpec)]
    sizes = [s.shape[0] for s in specs if s.shape.rank]
    fixed = next((int(s) for s in sizes if s is not None), None) if None not in sizes else None
    # What a Sequential holds may be the samples of the call that built it.
    fitted = trains if type(model).__name__ == "Sequential" and not batch else None
    batch = batch or trains
    count = fitted or fixed or batch or SAMPLES

    def sized(value: Any) -> Any:
        if not isinstance(value, tf.TensorSpec) or not value.shape.rank:
            return value
        return tf.TensorSpec([fitted or value.shape[0] or count, *list(value.shape)[1:]], value.dtype)

    args, kwds = tf.nest.map_structure(sized, (given.args, dict(given.kwds)))
    kwds.pop("training", None)
    flags = {"training": True} if _takes_training(model) else {}

    def tcprobe_step(args: Any, kwds: Any) -> List[Any]:
        with tf.GradientTape() as tape:
            outputs = tf.nest.flatten(model(*args, **kwds, **flags))
            losses = [
                tf.reduce_mean(tf.square(tf.cast(o, tf.float32)))
                for o in outputs
                if hasattr(o, "dtype") and o.dtype.is_floating
            ]
            loss = tf.add_n(losses)
        return [loss, *(g for g in tape.gradient(loss, model.trainable_variables) if g is not None)]

    step = tf.function(tcprobe_step)
    own.add(id(step))
    step(args, kwds)
    return OwnStep(id(step), count, bool(fixed or batch))


def _takes_training(model: Any) -> bool:
    try:
        parameters = inspect.signature(model.call).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(p.name == "training" or p.kind is p.VAR_KEYWORD for p in parameters)


class Lean:
    """While it is entered, Keras 3 normalises by running statistics, and no garbage is looked for.

    The statistics of a batch multiply no matrices, but with their gradients they are more than a third of all ops of a
    convolutional network (EfficientNetB7: 26,772 ops with them, 16,651 without). Keras 2 has one fused op for them.
    """

    def __init__(self, keras: Sequence[Any], gaps: Gaps) -> None:
        self._keras = [k for k in keras if hasattr(k, "ops")]
        self._gaps = gaps
        self._patches = Patches()
        self._collecting = False

    def __enter__(self) -> None:
        self._collecting = gc.isenabled()
        gc.disable()
        for keras in self._keras:
            with Guard(self._gaps, "batch statistics"):
                owner = defining_class(keras.layers.BatchNormalization, "call")
                self._patches.method(owner, "call", _by_running_statistics)

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self._patches.restore()
        if self._collecting:
            gc.enable()


def _by_running_statistics(original: Callable[..., Any]) -> Callable[..., Any]:
    def call(layer: Any, inputs: Any, training: Any = None, mask: Any = None) -> Any:  # noqa: ARG001
        return original(layer, inputs, training=False, mask=mask)

    return call
