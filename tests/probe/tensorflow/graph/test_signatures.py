"""In which sizes functions run in the window: what is noted of a call, and which batch of `fit` is a last one."""

from __future__ import annotations

from types import SimpleNamespace as Made
from typing import Any

import pytest

from tcprobe.probe.core.gaps import Gaps
from tcprobe.probe.tensorflow.graph.signatures import Signature, Signatures, epoch_of, place_in_epoch
from tcprobe.probe.tensorflow.hooks.fits import Fit

TF = Made(get_static_value=lambda value: value)


class Graph:
    """Stands for a FuncGraph whose second of two arguments is open; a third input is captured."""

    def __init__(self) -> None:
        shapes = (True, False, False)
        self.inputs = [
            Made(shape=Made(is_fully_defined=lambda k=known: k), dtype=Made(name="float32")) for known in shapes
        ]
        self.captures = [("variable", self.inputs[2])]


class PrefetchDataset:
    """Stands for datasets; `_inputs` are those before."""

    def __init__(self, *before: Any, rows: int = -2, **batch: Any) -> None:
        self._before, self._rows = before, rows
        vars(self).update(batch)

    def _inputs(self) -> tuple[Any, ...]:
        return self._before

    def cardinality(self) -> int:
        return self._rows


class RepeatDataset(PrefetchDataset):
    """Stands for a dataset that begins again."""


class UnbatchDataset(PrefetchDataset):
    """Stands for one whose elements are others."""


def tensors(*shapes: list[int] | None) -> list[Any]:
    return [Made(shape=Made(rank=None) if shape is None else tuple(shape)) for shape in shapes]


def batched(rows: int, **more: Any) -> PrefetchDataset:
    return PrefetchDataset(PrefetchDataset(rows=rows), _batch_size=16, **more)


def fit_of(place: int = 0, **adapter: Any) -> Fit:
    """Return a fit of Keras 3 that takes its `place`-th batch."""
    fit = Fit(marks_steps=False)
    fit.batches = Made(data_adapter=Made(**adapter), _steps_seen=place + 1, steps_per_execution=1)
    return fit


def test_a_call_is_noted_with_the_sizes_that_its_trace_leaves_open() -> None:
    seen, graph = Signatures(TF, Gaps()), Graph()
    for at, length in enumerate((64, 8, 64)):
        seen.ran(7, "__inference_step_3", graph, tensors([16], [16, length]), at, None)
    trace = "__inference_step_3"
    assert seen.calls == {
        (7, Signature(trace, ((1, (16, 64)),))): [0, 2],
        (7, Signature(trace, ((1, (16, 8)),))): [1],
    }


@pytest.mark.parametrize(
    ("dataset", "expected"),
    [
        (batched(229), (15, 5)),
        (PrefetchDataset(batched(224)), (14, 0)),
        (batched(-1), (None, 0)),  # without an end
        (batched(-2), (None, None)),
        (batched(229, _drop_remainder=True), (None, 0)),
        (RepeatDataset(batched(229)), (None, None)),  # the last batch comes anywhere
        (RepeatDataset(batched(224)), (14, 0)),
        (UnbatchDataset(batched(229)), (None, None)),
        (PrefetchDataset(batched(229), batched(229)), (None, None)),
    ],
)
def test_the_end_of_an_epoch_is_told_by_the_data(dataset: Any, expected: tuple[int | None, int | None]) -> None:
    assert epoch_of(TF, fit_of(_dataset=dataset)) == expected


def test_the_end_of_an_epoch_is_told_by_arrays() -> None:
    assert epoch_of(TF, fit_of(_partial_batch_size=5, num_batches=15)) == (15, 5)  # Keras 3
    assert epoch_of(TF, fit_of(_partial_batch_size=0, get_size=lambda: 14)) == (14, 0)  # Keras 2


@pytest.mark.parametrize(
    ("batches", "place"),
    [
        ({"_steps_seen": 3, "steps_per_execution": 1}, 2),
        ({"_steps_seen": 4, "steps_per_execution": 2}, None),
        ({"_current_step": 3, "_steps_per_execution_value": 1}, 3),
        ({"_current_step": 3, "_steps_per_execution": Made(numpy=lambda: 1)}, 3),
        ({"_current_step": 4, "_steps_per_execution": Made(numpy=lambda: 4)}, None),
        ({"_current_step": 3, "_adapter": Made(_user_steps=10)}, None),  # epochs that the data do not end
        ({}, None),
    ],
)
def test_the_place_in_an_epoch_is_told_by_keras(batches: dict[str, Any], place: int | None) -> None:
    fit = Fit(marks_steps=False)
    fit.batches = Made(**batches)
    assert place_in_epoch(fit) == place


def called(*fits: Fit) -> tuple[list[int | None], list[str]]:
    """Return the rows of smaller last batches in calls of `fit`, and the codes of notes."""
    gaps, graph, rows = Gaps(), Graph(), []
    graph.inputs[1].shape = graph.inputs[0].shape
    seen = Signatures(TF, gaps)
    for at, fit in enumerate(fits):
        seen.ran(7, "step", graph, [], at, fit)
        rows += [signature.batch for (_, signature), times in seen.calls.items() if at in times]
    return rows, [note["code"] for note in gaps.notes]


def test_the_last_batch_of_an_epoch_has_its_own_rows() -> None:
    fit = fit_of(13, _partial_batch_size=5, num_batches=15)
    places = iter((13, 14, 0))

    def at_place() -> Fit:
        fit.batches._steps_seen = next(places) + 1
        return fit

    gaps, graph = Gaps(), Graph()
    graph.inputs[1].shape = graph.inputs[0].shape
    seen = Signatures(TF, gaps)
    for at in range(3):
        seen.ran(7, "step", graph, [], at, at_place())
    assert {signature.batch: times for (_, signature), times in seen.calls.items()} == {None: [0, 2], 5: [1]}
    assert gaps.notes == []


def test_an_end_that_is_not_seen_is_noted_where_an_epoch_ends_in_the_window() -> None:
    assert called(fit_of(3, _dataset=batched(-2))) == ([None], [])
    assert called(fit_of(3, _dataset=batched(-2)), fit_of(0, _dataset=batched(-2))) == ([None, None], ["last-batch"])
    assert called(fit_of(3, _dataset=batched(-1)), fit_of(0, _dataset=batched(-1))) == ([None, None], [])
