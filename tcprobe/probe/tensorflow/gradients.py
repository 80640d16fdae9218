"""Counts what float16 would make of the gradients that optimizers are given, where that was asked for.

Each update adds some reductions to the step, in the graph of a traced one, and their sums stay in a variable on the
device: it is read before the window's first step and as it closes, so that what is counted is of the window. That slows
all steps.
"""

from __future__ import annotations

import math
import os
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ..constants import EXPONENTS
from ..core.gaps import Gaps
from ..core.window import CLOSE, DROP
from .graph.records import Record, write_json
from .graph.trained import handles
from .hooks.layers import CalledLayer, LayerHooks

# float16: what is at most half of the smallest number becomes 0, what is below the second is no normal number and loses
# digits, what is at least the third becomes infinite. Source: IEEE 754-2008, binary16, to the nearest.
GONE, NORMAL, INFINITE = 2.0**-25, 2.0**-14, 65520.0
LARGEST = 3.4028234e38  # of float32
MOST_VALUES = 1 << 14  # of a gradient that are looked at in an update: each is compared with all of these
COUNTS = ("size", "scale", "values", "zeros", "not_finite", "gone", "subnormal", "infinite")
UNSEEN = (
    "no update of weights was seen in which --numerics could count gradients: it sees those of TensorFlow's and Keras' "
    "optimizers in TensorFlow 2; of JAX and PyTorch none"
)
SLOWED = "gradients were counted, which slows all steps: hold no time of this run against one of another run"


class Weight(NamedTuple):
    """A weight, and the layer that owns it.

    Attributes:
        layer: path of the innermost layer that has it and was called; None where none was seen.
        name: its own, as Keras has it.
    """

    layer: Optional[str]
    name: str


class Sums:
    """The sums over the updates of the same weights.

    Attributes:
        weights: those.
        held: the variable that holds a row for each.
        before: the rows as the window began; None where nothing had been counted.
    """

    def __init__(self, weights: List[Weight], held: Any) -> None:
        self.weights = weights
        self.held = held
        self.before: Any = None


class Gradients:
    """Counts gradients, and writes gradients.json.

    Args:
        out: the folder for it.
        layers: hooks on their calls; what listens to these is told of them as before.
        gaps: takes what fails.
    """

    def __init__(self, out: str, layers: LayerHooks, gaps: Gaps) -> None:
        self._path = os.path.join(out, "gradients.json")
        self._gaps = gaps
        self._tf: Any = None
        self._sums: Dict[Tuple[int, ...], Sums] = {}  # by the handles of the weights
        self._layers: Dict[int, str] = {}  # by the handles of their weights
        self._window: Optional[List[Record]] = None
        self._listener = layers.on_call
        layers.on_call = self._called

    def on_tensorflow(self, tf: Any) -> None:
        """Take TensorFlow, right after its import."""
        self._tf = tf

    def given(self, optimizer: Any, name: str, args: Any, kwds: Any, variables: Sequence[Any]) -> None:
        """Count what an optimizer is about to apply.

        Args:
            optimizer: any Keras', or TensorFlow's.
            name: ``apply_gradients`` or ``apply``.
            args, kwds: of its call.
            variables: those that it updates.
        """
        tf, pairs = self._tf, gradients_of(name, args, kwds, variables)
        if not pairs or not tf.compat.v1.executing_eagerly_outside_functions():
            return
        sums = self._sums_of([variable for _, variable in pairs])
        scale, scaled = loss_scale(optimizer)
        with tf.name_scope("tcprobe_gradients"):
            scale = tf.cast(tf.convert_to_tensor(scale), tf.float32)
            rows = [counted(tf, gradient, scale, scaled) for gradient, _ in pairs]
            sums.held.assign_add(tf.stack(rows), read_value=False)

    def window_begins(self) -> None:
        """Count from here."""
        for sums in self._sums.values():
            sums.before = sums.held.numpy()

    def window_closes(self, how: str) -> None:
        """Keep what was counted since the window began, leave what an earlier one kept, or forget both."""
        if how != DROP:
            self._window = (self._records() or None) if how == CLOSE else None
            self._write()

    def write(self) -> None:
        """Write what was counted: in the window, else in all updates."""
        self._gaps.note("gradients-counted" if self._sums else "no-gradients", SLOWED if self._sums else UNSEEN)
        if self._window is None and self._sums:
            for sums in self._sums.values():
                sums.before = None
            self._window = self._records()
            self._write()

    def _write(self) -> None:
        write_json(self._path, {"schema": 1, "exponents": EXPONENTS, "gradients": self._window or []})

    def _records(self) -> List[Record]:
        """Return a record of each weight that was updated."""
        found = []
        for sums in self._sums.values():
            counts = sums.held.numpy() if sums.before is None else sums.held.numpy() - sums.before
            for weight, row in zip(sums.weights, counts.tolist()):
                each = dict(zip(("updates", *COUNTS), row))
                if each["updates"]:
                    each["scale"] /= each["updates"]
                    found.append({**weight._asdict(), **each, "larger": row[1 + len(COUNTS) :]})
        return found

    def _sums_of(self, variables: List[Any]) -> Sums:
        key = tuple(number for variable in variables for number in handles(variable))
        if key not in self._sums:
            from tensorflow.python.ops.resource_variable_ops import ResourceVariable

            tf, width = self._tf, 1 + len(COUNTS) + len(EXPONENTS)
            with tf.init_scope():  # not `tf.Variable`, which a strategy copies and a tf.function counts
                held = ResourceVariable(tf.zeros((len(variables), width), tf.float64), trainable=False)
            self._sums[key] = Sums([self._weight(variable) for variable in variables], held)
        return self._sums[key]

    def _weight(self, variable: Any) -> Weight:
        path = str(getattr(variable, "path", None) or getattr(variable, "name", "")).partition(":")[0]
        layer = next((self._layers[one] for one in handles(variable) if one in self._layers), None)
        return Weight(layer or path.rpartition("/")[0] or None, path.rpartition("/")[2])

    def _called(self, entry: CalledLayer, layer: Any, args: Any, kwds: Any, result: Any) -> None:
        if self._listener is not None:
            self._listener(entry, layer, args, kwds, result)
        for one in (number for v in getattr(layer, "trainable_weights", ()) for number in handles(v)):
            if one not in self._layers or entry.path.count("/") > self._layers[one].count("/"):
                self._layers[one] = entry.path  # the innermost; as a model is built, its layers are called alone


def gradients_of(name: str, args: Any, kwds: Any, variables: Sequence[Any]) -> List[Tuple[Any, Any]]:
    """Return the gradients in an optimizer's arguments, with their variables; without those that are None."""
    if name == "apply_gradients":
        pairs = args[0] if args else kwds.get("grads_and_vars", ())
    else:
        pairs = zip(args[0] if args else kwds.get("grads", ()), variables)
    return [(gradient, v) for gradient, v in pairs if gradient is not None and gradient.dtype.is_floating]


def loss_scale(optimizer: Any) -> Tuple[Any, bool]:
    """Return by what the loss is scaled, 1.0 where it is not, and whether gradients come scaled.

    Keras 3 divides in `apply`; with Keras 2 that has been done. Until Keras 3 has built an optimizer, it scales by what
    it begins with.
    """
    if "LossScale" not in type(optimizer).__name__:
        factor = getattr(optimizer, "loss_scale_factor", None)
        return (1.0, False) if factor is None else (float(factor), True)
    if hasattr(optimizer, "get_unscaled_gradients"):
        return optimizer.loss_scale, False
    return (optimizer.dynamic_scale if optimizer.built else optimizer.initial_scale), True


def counted(tf: Any, gradient: Any, scale: Any, scaled: bool) -> Any:
    """Return the row of one gradient in one update: 1, the numbers of `COUNTS`, and how many are beyond `EXPONENTS`.

    Of a sparse gradient the rows that it has count; of one with many values some are looked at, evenly spread.

    Args:
        tf: TensorFlow.
        gradient: a tensor, or ``IndexedSlices``.
        scale: of the loss, a float32 scalar.
        scaled: whether the gradient is that of the scaled loss.
    """
    values = tf.reshape(getattr(gradient, "values", gradient), [-1])
    size = tf.size(values)
    known = values.shape.num_elements()
    spread = size // MOST_VALUES * 2 + 1 if known is None else stride(known)
    looked = tf.abs(tf.cast(values[::spread], tf.float32))
    finite = looked <= LARGEST  # not NaN either
    magnitude = tf.where(finite, looked, tf.zeros_like(looked))
    in_half = magnitude if scaled else magnitude * scale
    without = magnitude / scale if scaled else magnitude
    larger = without[:, tf.newaxis] > tf.constant([2.0**exponent for exponent in EXPONENTS])
    kinds = (
        finite | True, finite & (magnitude == 0), ~finite, (magnitude > 0) & (in_half <= GONE),
        (in_half > GONE) & (in_half < NORMAL), in_half >= INFINITE,
    )  # fmt: skip
    counts = tf.concat([tf.stack(kinds, 1), larger], 1)
    sums = tf.cast(tf.reduce_sum(tf.cast(counts, tf.float32), 0), tf.float64)
    return tf.concat([[tf.constant(1.0, tf.float64), tf.cast(size, tf.float64), tf.cast(scale, tf.float64)], sums], 0)


def stride(size: int) -> int:
    """Return how far apart the values lie that are looked at: with no size in common, so that all columns have some."""
    apart = max(1, -(-size // MOST_VALUES))
    while apart > 1 and math.gcd(apart, size) > 1:
        apart += 1
    return apart
