"""Tells which `fit` of Keras is running, what hands it its batches, and what datasets of the script deliver."""

from __future__ import annotations

import functools
import sys
import threading
import weakref
from typing import Any, Callable, List, Optional, Sequence, Tuple

from ...core.gaps import Gaps, Guard
from .patch import Patches, defining_class

LOOKED_AT = 8  # elements of a generator whose shapes are looked at outside the window too
DATA_HANDLER = "DataHandler"  # Keras 2's; Keras 3 calls it TFEpochIterator


class Fit:
    """A call of `fit`.

    Attributes:
        marks_steps: it marks its steps in the profile itself, as Keras 2 does.
        replicas: copies of the model that share a batch.
        batches: Keras' own object that hands out the batches, from its construction on; None before.
    """

    def __init__(self, marks_steps: bool, replicas: int = 1) -> None:
        self.marks_steps = marks_steps
        self.replicas = replicas
        self.batches: Any = None


class Fits:
    """Hooks `fit` of any Keras.

    Attributes:
        on_fit: called in the place of a `fit`: with its Keras, what fits really, the model, and the arguments.
    """

    def __init__(self, gaps: Gaps) -> None:
        self.on_fit: Callable[..., Any] = _fit
        self._gaps = gaps
        self._patches = Patches()
        self._local = threading.local()

    def install(self, keras: Any) -> None:
        """Hook one Keras; a second may be hooked beside it."""
        with Guard(self._gaps, "keras Model.fit"):
            owner = defining_class(keras.Model, "fit")
            batches = batches_class(owner)
            of_keras_2 = batches.__name__ == DATA_HANDLER
            self._patches.method(keras.Model, "fit", lambda fit: self._fitting(keras, fit, of_keras_2))
            self._patches.method(batches, "__init__", self._making)

    def remove(self) -> None:
        """Put the original methods back."""
        self._patches.restore()

    def current(self) -> Optional[Fit]:
        """Return the `fit` that runs in this thread, None outside any."""
        found: Optional[Fit] = getattr(self._local, "fit", None)
        return found

    def _fitting(self, keras: Any, original: Callable[..., Any], marks_steps: bool) -> Callable[..., Any]:
        local, fits = self._local, self

        def fit(model: Any, *args: Any, **kwds: Any) -> Any:
            before = getattr(local, "fit", None)
            strategy = getattr(model, "distribute_strategy", None)
            local.fit = Fit(marks_steps, int(getattr(strategy, "num_replicas_in_sync", 1)))
            try:
                return fits.on_fit(keras, original, model, args, kwds)
            finally:
                local.fit = before

        return fit

    def _making(self, original: Callable[..., Any]) -> Callable[..., Any]:
        fits = self

        def __init__(batches: Any, *args: Any, **kwds: Any) -> None:  # noqa: N807
            fit = fits.current()
            if fit is not None and fit.batches is None:  # the first is that of training; validation follows
                fit.batches = batches  # known before it asks a strategy to split its batches
            original(batches, *args, **kwds)

        return __init__


class Yielded:
    """Shapes in which a generator yields elements.

    Attributes:
        shapes: of the parts of an element.
        times: that such were seen.
    """

    def __init__(self, shapes: List[List[int]]) -> None:
        self.shapes = shapes
        self.times = 1


class Datasets:
    """Hooks tf.data: remembers every dataset by its tensor, and what the script's generators yield.

    Attributes:
        watching: look at every element of a generator, not only at the first ones.
    """

    def __init__(self, gaps: Gaps) -> None:
        self._gaps = gaps
        self._patches = Patches()
        self._by_tensor: "weakref.WeakValueDictionary[int, Any]" = weakref.WeakValueDictionary()
        self._yielded: "weakref.WeakKeyDictionary[Any, List[Yielded]]" = weakref.WeakKeyDictionary()
        self.watching = False

    def install(self, tf: Any) -> None:
        """Hook `tf`; a second call does nothing."""
        kind = tf.data.Dataset
        with Guard(self._gaps, "datasets"):
            self._patches.method(kind, "__init__", self._making)
        with Guard(self._gaps, "generators"):
            hook = self._watching(tf, vars(kind)["from_generator"].__func__)
            self._patches.entry(kind, "from_generator", staticmethod(hook))

    def remove(self) -> None:
        """Put the original methods back."""
        self._patches.restore()

    def of_tensor(self, tensor: Any) -> Any:
        """Return the dataset whose variant tensor this is, None where it is not known."""
        dataset = self._by_tensor.get(id(tensor))
        return dataset if getattr(dataset, "_variant_tensor", None) is tensor else None

    def first(self, dataset: Any) -> Optional[List[List[int]]]:
        """Return the shapes of the first element that the generator behind this very dataset yielded."""
        found = self._yielded.get(dataset)
        return found[0].shapes if found else None

    def usual(self, first: Any) -> Tuple[Any, bool]:
        """Return the shapes of a generator's elements, given those of the first, and whether some batches are smaller.

        Sizes that differ are None. A batch that has fewer rows, and is rare, is a last one.
        """
        alike = [found for found in list(self._yielded.values()) if found and found[0].shapes == first]
        each = sorted((one for found in alike for one in list(found)), key=lambda one: -one.times)
        if len(each) < 2:
            return first, False
        common, other = each[0].shapes, each[1]
        if len(each) == 2 and 4 * other.times <= each[0].times and _is_part(other.shapes, common):
            return common, True
        return [_in_common(parts) for parts in zip(*(one.shapes for one in each))], False

    def _making(self, original: Callable[..., Any]) -> Callable[..., Any]:
        by_tensor, gaps = self._by_tensor, self._gaps

        def __init__(dataset: Any, variant_tensor: Any, *args: Any, **kwds: Any) -> None:  # noqa: N807
            original(dataset, variant_tensor, *args, **kwds)
            with Guard(gaps, "datasets"):
                by_tensor[id(variant_tensor)] = dataset

        return __init__

    def _watching(self, tf: Any, make: Callable[..., Any]) -> Callable[..., Any]:
        """Watch what generators yield."""
        known, gaps, datasets = self._yielded, self._gaps, self

        @functools.wraps(make)
        def from_generator(generator: Any, *args: Any, **kwds: Any) -> Any:
            if not callable(generator):
                return make(generator, *args, **kwds)
            yielded: List[Yielded] = []
            left = iter(range(LOOKED_AT))

            def noted(element: Any) -> Any:
                if next(left, None) is not None or datasets.watching:
                    gaps.run("elements of a generator", lambda: _count(yielded, _shapes(tf, element)))
                return element

            @functools.wraps(generator)
            def generate(*given: Any) -> Any:
                return map(noted, generator(*given))  # no frame of ours around what the generator does

            dataset = make(generate, *args, **kwds)
            with Guard(gaps, "generators"):
                known[dataset] = yielded
            return dataset

        return from_generator


def _fit(_: Any, original: Callable[..., Any], model: Any, args: Any, kwds: Any) -> Any:
    return original(model, *args, **kwds)


def _count(yielded: List[Yielded], shapes: List[List[int]]) -> None:
    known = next((one for one in yielded if one.shapes == shapes), None)
    if known is None:
        yielded.append(Yielded(shapes))
    else:
        known.times += 1


def _is_part(shapes: Sequence[Sequence[int]], batch: Sequence[Sequence[int]]) -> bool:
    """Return whether these are the shapes of a batch with fewer rows."""
    return all(len(a) == len(b) and a[1:] == b[1:] and [*a[:1]] <= [*b[:1]] for a, b in zip(shapes, batch))


def _in_common(shapes: Sequence[Sequence[int]]) -> List[Optional[int]]:
    """Return the sizes that several shapes have in common, None for the others."""
    return [sizes[0] if len(set(sizes)) == 1 else None for sizes in zip(*shapes)]


def _shapes(tf: Any, element: Any) -> List[List[int]]:
    return [[int(d) for d in part.shape] for part in tf.nest.flatten(element) if hasattr(part, "shape")]


def batches_class(trainer: Any) -> Any:
    """Return the class whose objects hand `fit` its batches, given the class that defines `fit`.

    Raises:
        AttributeError: this Keras has none that is known.
    """
    module: Any = sys.modules[trainer.__module__]
    adapter = getattr(module, "data_adapter", None)
    return module.TFEpochIterator if adapter is None else getattr(adapter, DATA_HANDLER)
