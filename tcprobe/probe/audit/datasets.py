"""Stands in for Keras' own data sets that are not on this machine: arrays of their shapes, dtypes and classes.

Nothing is downloaded, as an audit computes nothing from data; a set that is there is loaded as ever.
"""

from __future__ import annotations

import functools
import sys
from typing import Any, Callable, Dict, List, NamedTuple, Tuple

from ..core.framework import Hook
from ..core.gaps import Gaps

# Of Keras 2 and 3, of TensorFlow 2.4 and 2.5, and of the package tf_keras; some hand on what others define.
PACKAGES = (
    *("keras.src.datasets", "keras.datasets", "keras._tf_keras.keras.datasets"),
    *("tensorflow.python.keras.datasets", "tf_keras.src.datasets", "tf_keras.datasets"),
)
STANDS_IN = "arrays of the same shapes and dtypes stand for data that are not on this machine: %s"
Arrays = Tuple[Tuple[Any, Any], Tuple[Any, Any]]


class Images(NamedTuple):
    """A set of images: training and test samples, shape of one, its classes, dtype and whether a label is a row."""

    train: int
    test: int
    shape: Tuple[int, ...]
    classes: int
    label_dtype: str
    label_rows: bool


class Texts(NamedTuple):
    """A set of texts: training and test samples, classes, words, and the words of a usual text and of the longest."""

    train: int
    test: int
    classes: int
    words: int
    usual: int
    longest: int


class Numbers(NamedTuple):
    """A set for regression: samples, their features, and the dtype of both."""

    samples: int
    features: int
    dtype: str


# Source: docstrings of keras/src/datasets, Keras 3; lengths of texts: means and maxima of the sets themselves.
IMAGES = {
    "mnist": Images(60000, 10000, (28, 28), 10, "uint8", False),
    "fashion_mnist": Images(60000, 10000, (28, 28), 10, "uint8", False),
    "cifar10": Images(50000, 10000, (32, 32, 3), 10, "uint8", True),
    "cifar100": Images(50000, 10000, (32, 32, 3), 100, "int64", True),
}
TEXTS = {
    "imdb": Texts(25000, 25000, 2, 88584, 239, 2494),
    "reuters": Texts(8982, 2246, 46, 30979, 146, 2376),
}
NUMBERS = {
    "boston_housing": Numbers(506, 13, "float64"),
    "california_housing": Numbers(20640, 8, "float32"),
}
SMALL_CALIFORNIA = 600
COARSE_CLASSES = 20  # of cifar100


class NotHereError(BaseException):
    """What would be downloaded; Keras removes a file that is there where it catches an `Exception` instead."""


def refuse(*_args: Any, **_kwds: Any) -> None:
    """Stand for the download of a file."""
    raise NotHereError


class DataSets:
    """Watches Keras' data sets.

    Args:
        gaps: takes what a hook raises.

    Attributes:
        made: names of the sets that arrays stood for.
    """

    def __init__(self, gaps: Gaps) -> None:
        self.made: List[str] = []
        self._gaps = gaps

    def notes(self) -> List[str]:
        """Return what the report should say."""
        return [STANDS_IN % ", ".join("keras.datasets." + name for name in self.made)] if self.made else []

    def hooks(self) -> Dict[str, Hook]:
        """Return what to call after the import of each module with a data set."""
        names = (*IMAGES, *TEXTS, *NUMBERS)
        return {"%s.%s" % (package, name): self._on_module for package in PACKAGES for name in names}

    def on_keras(self) -> None:
        """Watch those sets that came with Keras."""
        for name in self.hooks():
            if name in sys.modules:
                self._gaps.run("data of Keras", functools.partial(self._on_module, sys.modules[name]))

    def _on_module(self, module: Any) -> None:
        name = module.__name__.rpartition(".")[2]
        for function, make in (("load_data", arrays), ("get_word_index", word_index)):
            original = getattr(module, function, None)
            names = getattr(original, "__globals__", {})  # of the module that defines it, not of one that hands it on
            if original is not None and "get_file" in names:
                setattr(module, function, self._standing_in(name, original, functools.partial(make, names, name)))

    def _standing_in(self, name: str, original: Callable[..., Any], make: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def loads(*args: Any, **kwds: Any) -> Any:
            names = original.__globals__["get_file"].__globals__
            if "urlretrieve" not in names:
                return original(*args, **kwds)
            retrieve, names["urlretrieve"] = names["urlretrieve"], refuse
            try:
                return original(*args, **kwds)
            except NotHereError:
                self.made += [] if name in self.made else [name]
                return make(*args, **kwds)
            finally:
                names["urlretrieve"] = retrieve

        return loads


def arrays(names: Dict[str, Any], name: str, *args: Any, **kwds: Any) -> Arrays:
    """Return what ``load_data`` of a set gives, with other values; `names` are of its module, arguments its own."""
    if name in IMAGES:
        label_mode = args[0] if args else kwds.get("label_mode")
        kind = IMAGES[name]._replace(classes=COARSE_CLASSES) if label_mode == "coarse" else IMAGES[name]
        backend = names.get("backend") or names.get("K")  # the latter in TensorFlow 2.4
        return images(kind, backend.image_data_format() if backend and len(kind.shape) > 2 else "channels_last")
    if name in TEXTS:
        return texts(TEXTS[name], *args, **kwds)
    kind_of, version = NUMBERS[name], args[0] if args else kwds.get("version")
    small = name == "california_housing" and version == "small"
    return numbers(kind_of._replace(samples=SMALL_CALIFORNIA) if small else kind_of, kwds.get("test_split", 0.2))


def images(kind: Images, data_format: str) -> Arrays:
    """Return images that all hold each level once in a while, and labels of each class in turn."""
    import numpy as np

    shape = kind.shape if data_format == "channels_last" else (kind.shape[-1], *kind.shape[:-1])
    one = np.arange(np.prod(shape)).astype("uint8").reshape(shape)

    def part(count: int) -> Tuple[Any, Any]:
        labels = (np.arange(count) % kind.classes).astype(kind.label_dtype)
        return np.broadcast_to(one, (count, *shape)).copy(), labels.reshape(-1, 1) if kind.label_rows else labels

    return part(kind.train), part(kind.test)


def texts(kind: Texts, *args: Any, **kwds: Any) -> Arrays:
    """Return texts as lists of the ranks of their words, the first as long as the longest, all others of usual length.

    Arguments are those of ``load_data``: ``path, num_words, skip_top, maxlen``.
    """
    import numpy as np

    given = dict(zip(("path", "num_words", "skip_top", "maxlen"), args), **kwds)
    start, beyond = given.get("start_char", 1), given.get("num_words") or kind.words + 3
    longest = (given["maxlen"] - 1) if given.get("maxlen") else kind.longest

    def text(length: int) -> List[int]:
        words = np.linspace(min(4, beyond - 1), beyond - 1, max(length - 1, 1)).astype(int)
        return [*([] if start is None else [start]), *words.tolist()]

    def part(count: int) -> Tuple[Any, Any]:
        samples = np.empty(count, dtype=object)
        usual = text(min(kind.usual, longest))
        samples[:] = [text(longest), *[usual] * (count - 1)]
        return samples, np.arange(count) % kind.classes

    if "test_split" not in given:
        return part(kind.train), part(kind.test)
    count = kind.train + kind.test
    train = int(count * (1 - given["test_split"]))
    return part(train), part(count - train)


def numbers(kind: Numbers, test_split: float) -> Arrays:
    """Return features and targets that vary."""
    import numpy as np

    def part(count: int) -> Tuple[Any, Any]:
        features = np.linspace(0.0, 1.0, count * kind.features).reshape(count, kind.features)
        return features.astype(kind.dtype), np.linspace(5.0, 50.0, count).astype(kind.dtype)

    train = int(kind.samples * (1 - test_split))
    return part(train), part(kind.samples - train)


def word_index(_names: Dict[str, Any], name: str, *_args: Any, **_kwds: Any) -> Dict[str, int]:
    """Return a number for each word of a set."""
    return {"word%d" % number: number for number in range(1, TEXTS[name].words + 1)}
