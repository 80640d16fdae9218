"""What the probe knows of the elements that a script's generators yield."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tcprobe.probe.core.gaps import Gaps
from tcprobe.probe.tensorflow.hooks.fits import LOOKED_AT, Datasets


class Dataset:
    """Stands for `tf.data.Dataset`."""

    def __init__(self, variant_tensor: Any) -> None:
        self._variant_tensor = variant_tensor

    @staticmethod
    def from_generator(generator: Any) -> Any:
        made = Dataset(object())
        made.generator = generator  # type: ignore[attr-defined]
        return made


def watched(elements: Iterable[list[list[int]]], watching: bool = False) -> tuple[Any, Any, Datasets]:
    """Return what is known of a generator that yields elements of these shapes, its dataset, and who knows it."""
    nest = SimpleNamespace(flatten=lambda element: [SimpleNamespace(shape=shape) for shape in element])
    datasets = Datasets(Gaps())
    datasets.install(SimpleNamespace(data=SimpleNamespace(Dataset=Dataset), nest=nest))
    datasets.watching = watching

    def generate() -> Iterator[Any]:
        yield from elements

    try:
        made: Any = Dataset.from_generator(generate)
        assert list(made.generator()) == list(elements)
    finally:
        datasets.remove()
    return datasets.first(made), made, datasets


FULL, LAST, SHORT = [[16, 24, 8], [16]], [[5, 24, 8], [5]], [[16, 9, 8], [16]]


@pytest.mark.parametrize(
    ("elements", "usual"),
    [
        ([FULL] * 3, (FULL, False)),
        ([FULL] * 4 + [LAST], (FULL, True)),
        ([LAST] + [FULL] * 4, (FULL, True)),  # batches in another order
        ([FULL] * 2 + [LAST], ([[None, 24, 8], [None]], False)),
        ([FULL] * 4 + [SHORT], ([[16, None, 8], [16]], False)),
        ([FULL] * 4 + [SHORT, LAST], ([[None, None, 8], [None]], False)),
    ],
)
def test_sizes_of_a_generators_elements_are_those_that_all_have(elements: Any, usual: Any) -> None:
    first, _, datasets = watched(elements)
    assert first == elements[0]
    assert datasets.usual(first) == usual


def test_only_the_first_elements_are_looked_at_outside_the_window() -> None:
    elements = [FULL] * LOOKED_AT + [SHORT]
    first, made, datasets = watched(elements)
    assert (first, datasets.usual(first)) == (FULL, (FULL, False))
    first, made, datasets = watched(elements, watching=True)
    assert made is not None
    assert datasets.usual(first) == ([[16, None, 8], [16]], False)
