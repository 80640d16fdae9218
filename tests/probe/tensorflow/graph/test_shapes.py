"""Shapes filled in, and batch sizes found, from objects that only look like TensorFlow's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcprobe.probe.tensorflow.graph.shapes import (
    batch_of_dataset,
    batch_of_fit,
    element_of_dataset,
    has_unknown,
    merged_shape,
    ordered,
)
from tcprobe.probe.tensorflow.hooks.fits import Fit

SIZES = st.lists(st.one_of(st.none(), st.integers(0, 9)), max_size=4)


@pytest.mark.parametrize(
    ("known", "inferred", "expected"),
    [
        ([None, 4], [8, 4], [8, 4]),
        (None, [8, 4], [8, 4]),
        ([None, 4], None, [None, 4]),
        ([None, 4], [8, 5], [None, 4]),  # they contradict each other: nothing is taken over
        ([None, 4], [8, 4, 1], [None, 4]),
        ([None, None], [8, None], [8, None]),
    ],
)
def test_unknown_sizes_are_filled_only_where_the_rest_agrees(known: Any, inferred: Any, expected: Any) -> None:
    assert merged_shape(known, inferred) == expected


@given(SIZES, SIZES)
def test_a_known_size_never_changes(known: list[int | None], inferred: list[int | None]) -> None:
    result = merged_shape(list(known), list(inferred))
    assert result is not None
    assert all(after == before for before, after in zip(known, result, strict=True) if before is not None)


def test_an_unknown_rank_is_unknown() -> None:
    assert has_unknown([[1, 2], None])
    assert has_unknown([[1, None]])
    assert not has_unknown([[1, 2], []])


def dataset(size: int | None = None, *inputs: Any) -> Any:
    found = SimpleNamespace(_inputs=lambda: list(inputs))
    if size is not None:
        found._batch_size = size
    return found


def test_the_batch_size_is_that_of_the_last_batching() -> None:
    assert batch_of_dataset(dataset(None, dataset(32, dataset(8)))) == 32
    assert batch_of_dataset(dataset(None, dataset(), dataset(16))) == 16
    assert batch_of_dataset(dataset(None, dataset())) is None
    assert batch_of_dataset(object()) is None


def fit(**batches: Any) -> Fit:
    """Return a running fit whose batches come from an object with these attributes."""
    running = Fit(marks_steps=False)
    running.batches = SimpleNamespace(**batches) if batches else None
    return running


def test_fit_tells_its_batch_size_in_keras_3_and_keras_2() -> None:
    keras_3 = fit(data_adapter=SimpleNamespace(batch_size=24))
    keras_2 = fit(_adapter=SimpleNamespace(batch_size=lambda: 48))
    by_dataset = fit(_adapter=SimpleNamespace(batch_size=lambda: None), _dataset=dataset(8))
    assert [batch_of_fit(running) for running in (keras_3, keras_2, by_dataset, fit())] == [24, 48, 8, None]


def test_a_generators_first_batch_tells_the_size() -> None:
    """`representative_batch_size` is what Keras 2 knows of generators and sequences."""
    generator = fit(_adapter=SimpleNamespace(batch_size=lambda: None, representative_batch_size=lambda: 12))
    assert batch_of_fit(generator) == 12


class PrefetchDataset:
    def __init__(self, *inputs: Any) -> None:
        self._inputs = lambda: list(inputs)


class MapDataset(PrefetchDataset):
    pass


class FlatMapDataset(PrefetchDataset):
    pass


def test_what_a_generator_yielded_first_holds_behind_datasets_that_pass_it_on() -> None:
    source = FlatMapDataset()
    known: Any = SimpleNamespace(first=lambda dataset: [[16, 8], [16]] if dataset is source else None)
    fetched, mapped, flat = PrefetchDataset(source), MapDataset(PrefetchDataset(source)), FlatMapDataset(source)
    assert [element_of_dataset(d, known) for d in (fetched, mapped, flat)] == [([16, 8], [16]), (), ()]
    assert [batch_of_dataset(d, known) for d in (fetched, mapped)] == [16, 16]


def test_arguments_stand_in_the_order_of_the_parameters() -> None:
    function = SimpleNamespace(python_function=lambda second, first, **others: None)
    assert ordered(function, (), {"first": 1, "second": 2}) == [2, 1]
    assert ordered(function, (3,), {"first": 1, "z": 5, "a": 4}) == [3, 1, 4, 5]
    assert ordered(None, (1, 2), {}) == [1, 2]
