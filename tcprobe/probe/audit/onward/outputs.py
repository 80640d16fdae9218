"""Makes what a call that was not run would have returned."""

from __future__ import annotations

from typing import Any, Optional

from ...tensorflow.graph.shapes import batch_of_dataset

UNKNOWN = float("nan")


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
