"""Shapes of expressions as they are read, beside those that NumPy, TensorFlow and Keras compute."""

from __future__ import annotations

from typing import Any

import pytest

from tcprobe.audit.source.kinds import SourceValue, Tensor
from tcprobe.audit.source.read import Answers, parse_source
from tcprobe.source.values import Known
from tests.audit.source.arrays.expressions import BATCHED, HEAD, MADE, NUMBERS, SYMBOLIC, UNSURE, lines

BATCHES = (3, 5)


def read_value(expression: str) -> SourceValue:
    """Return what an expression on the model's inputs is read as."""
    inputs = "".join(f"{name} = keras.Input({sizes})\n" for name, sizes in BATCHED.items())
    readings = parse_source(f"{HEAD}{inputs}r = {expression}\n", "/model.py").readings
    assert isinstance(readings, Answers)
    return readings.state.env.vars["r"]


def computed(expression: str, batch: int) -> Any:
    """Return what the libraries make of an expression, for so many samples."""
    tensorflow = pytest.importorskip("tensorflow")
    space: dict[str, Any] = {}
    exec(HEAD, space)
    space.update({name: tensorflow.ones((batch, *sizes)) for name, sizes in BATCHED.items()})
    return eval(expression, space)


def shape(value: Any) -> tuple[int, ...]:
    return tuple(int(size) for size in value.shape)


@pytest.mark.tensorflow
@pytest.mark.parametrize("expression", lines(SYMBOLIC))
def test_what_is_made_of_inputs(expression: str) -> None:
    value = read_value(expression)
    assert isinstance(value, Tensor)
    assert value.shape is not None
    for batch in BATCHES:
        sizes = list(value.shape)
        if value.rows is not None and sizes[value.batch] is None:
            sizes[value.batch] = value.rows * batch
        assert tuple(sizes) == shape(computed(expression, batch))


@pytest.mark.tensorflow
@pytest.mark.parametrize("expression", lines(UNSURE))
def test_what_is_not_known_is_not_told(expression: str) -> None:
    value = read_value(expression)
    if not isinstance(value, Tensor) or value.shape is None:
        return
    for batch in BATCHES:
        sizes, real = list(value.shape), shape(computed(expression, batch))
        if value.rows is not None and sizes and sizes[value.batch] is None:
            sizes[value.batch] = value.rows * batch
        assert len(sizes) == len(real)
        assert all(size in (None, told) for size, told in zip(sizes, real, strict=True)), (sizes, real)


@pytest.mark.tensorflow
@pytest.mark.parametrize("expression", lines(MADE))
def test_what_is_made_of_sizes(expression: str) -> None:
    value = read_value(expression)
    assert isinstance(value, Tensor)
    assert value.shape == shape(computed(expression, 3))


@pytest.mark.tensorflow
@pytest.mark.parametrize("expression", lines(NUMBERS))
def test_numbers_that_sizes_are_made_of(expression: str) -> None:
    value = read_value(expression)
    assert isinstance(value, Known)
    assert value.value == int(computed(expression, 3))
