"""Random programs on arrays: every size that is read is NumPy's, and none is read where NumPy raises."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tcprobe.audit.source.kinds import Tensor
from tcprobe.audit.source.read import Answers, parse_source
from tests.support import examples

HEAD = "import numpy as np\n"
SIZES = st.integers(1, 6)
AXES = st.integers(-4, 4)
SHAPES = st.lists(SIZES, min_size=1, max_size=4).map(tuple)
INDEXES = st.one_of(
    st.sampled_from([":", "...", "None", "::2", "1:", ":-1", ":3", "-2:", "np.newaxis"]), st.integers(-2, 2).map(str)
)
STEPS = st.one_of(
    st.lists(INDEXES, min_size=1, max_size=4).map(lambda parts: "x = x[" + ", ".join(parts) + "]"),
    st.lists(st.sampled_from([-1, 1, 2, 3, 4, 6]), min_size=1, max_size=4).map(lambda s: f"x = x.reshape({s})"),
    st.permutations(range(4))
    .flatmap(lambda p: st.integers(1, 4).map(lambda n: [a for a in p if a < n]))
    .map(lambda p: f"x = np.transpose(x, {p})"),
    AXES.map(lambda a: f"x = np.expand_dims(x, {a})"),
    AXES.map(lambda a: f"x = x.sum(axis={a})"),
    AXES.map(lambda a: f"x = np.max(x, axis={a}, keepdims=True)"),
    AXES.map(lambda a: f"x = np.squeeze(x, axis={a})"),
    AXES.map(lambda a: f"x = np.concatenate([x, x], axis={a})"),
    AXES.map(lambda a: f"x = np.stack([x, x, x], {a})"),
    st.tuples(SIZES, AXES).map(lambda a: f"x = np.split(x, {a[0]}, axis={a[1]})[0]"),
    st.tuples(SIZES, AXES).map(lambda a: f"x = np.repeat(x, {a[0]}, axis={a[1]})"),
    st.lists(st.integers(1, 3), min_size=1, max_size=4).map(lambda t: f"x = np.tile(x, {t})"),
    st.tuples(AXES, AXES).map(lambda a: f"x = np.swapaxes(x, {a[0]}, {a[1]})"),
    st.tuples(AXES, AXES).map(lambda a: f"x = np.moveaxis(x, {a[0]}, {a[1]})"),
    SHAPES.map(lambda s: f"x = x + np.ones({s})"),
    SHAPES.map(lambda s: f"x = np.maximum(x, np.ones({s}))"),
    SHAPES.map(lambda s: f"x = x @ np.ones({s})"),
    SHAPES.map(lambda s: f"x = np.dot(x, np.ones({s}))"),
    SHAPES.map(lambda s: f"x = np.broadcast_to(x, {s})"),
    st.integers(0, 2).map(lambda n: f"x = np.pad(x, {n})"),
    st.sampled_from(["x = x.T", "x = x.flatten()", "x = np.sqrt(x)", "x = x.reshape(-1, x.shape[-1])", "x = x.sum()"]),
)


def read_shape(text: str) -> Any:
    """Return the shape that is read of x; None where none is."""
    readings = parse_source(text, "/model.py").readings
    assert isinstance(readings, Answers)
    value = readings.state.env.vars["x"]
    return value.shape if isinstance(value, Tensor) else None


@settings(max_examples=examples(250), deadline=None)
@given(SHAPES, st.lists(STEPS, min_size=1, max_size=5))
def test_sizes_are_those_of_numpy(shape: tuple[int, ...], steps: list[str]) -> None:
    text = "\n".join([f"{HEAD}x = np.ones({shape})", *steps])
    space: dict[str, Any] = {}
    done = [HEAD, f"x = np.ones({shape})"]
    for step in done + steps:
        try:
            exec(step, space)
        except (ValueError, IndexError):  # NumPy's own AxisError is both
            break
    else:
        found = read_shape(text)
        real = np.shape(space["x"])
        if found is not None:
            assert len(found) == len(real)
            # A size of 0 is read as unknown.
            assert all(size in (None, told) for size, told in zip(found, real, strict=True))


def test_most_steps_keep_every_size() -> None:
    steps = ["x = x[:, 1:]", "x = x.reshape([-1, 4])", "x = np.tile(x, [2, 3])", "x = np.stack([x, x], 0)", "x = x.T"]
    text = "\n".join([f"{HEAD}x = np.ones((3, 5))", *steps])
    assert read_shape(text) == (12, 6, 2)
