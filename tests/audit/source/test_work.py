"""The work of reading a file grows as the file does: calls of functions are counted, not time."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from tcprobe.audit.source.read import parse_source, read_model


def layers(n: int) -> str:
    return "import keras\n" + "".join(f"l{i} = keras.layers.Dense(8 * {i + 1})\n" for i in range(n))


def sequential(n: int) -> str:
    parts = "".join("keras.layers.Dense(64),\n" for _ in range(n))
    return f"import keras\nm = keras.Sequential([keras.Input((64,)),\n{parts}])\n"


def functions(n: int) -> str:
    made = "".join(f"def f{i}(x, n=8):\n    return f{i + 1}(keras.layers.Dense(n)(x), n)\n" for i in range(n))
    return f"import keras\n{made}def f{n}(x, n=8):\n    return x\nx = keras.Input((8,))\nm = keras.Model(x, f0(x))\n"


def classes(n: int) -> str:
    made = "".join(f"class L{i}(keras.layers.Layer):\n    def call(self, x):\n        return x\n" for i in range(n))
    return f"import keras\n{made}"


def branches(n: int) -> str:
    return "import keras, sys\n" + "".join(f"if sys.argv:\n    v{i} = keras.layers.Dense({i + 1})\n" for i in range(n))


def work(text: str) -> int:
    """Return how many calls of Python functions reading and following a file takes."""
    count = 0

    def note(_frame: object, event: str, _value: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        source = parse_source(text, "/model.py")
        source.calls()
        read_model(source)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("make", [layers, sequential, functions, classes, branches])
def test_twice_the_file_is_twice_the_work(make: Callable[[int], str]) -> None:
    work(make(2))  # fills the caches of Keras' names
    assert work(make(120)) < 2.1 * work(make(60))
