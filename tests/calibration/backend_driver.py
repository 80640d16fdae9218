"""Check the results of one backend of the measuring program: ``python backend_driver.py FOLDER NAME``."""

from __future__ import annotations

import importlib
import os
import sys

os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
PLACE, NAME = sys.argv[1], sys.argv[2]
sys.path.insert(0, os.path.dirname(PLACE))  # noqa: PTH120 - runs on Python 3.8, as the program does
program = importlib.import_module(os.path.basename(PLACE))  # noqa: PTH119
backend = next(b for b in program.BACKENDS if b.NAME == NAME)
session = backend.open("cpu", False)


def total(x, y):
    """Sum of products of two tensors, in double precision."""
    return sum(float(a) * float(b) for a, b in zip(flat(x), flat(y)))  # noqa: B905


def flat(tensor):
    return (tensor.numpy() if hasattr(tensor, "numpy") else __import__("numpy").asarray(tensor)).ravel().tolist()


def near(values):
    assert all(abs(v - values[0]) <= 1e-3 * abs(values[0]) + 1e-3 for v in values), values


def convolution():
    """A convolution is linear: <y, g> = <x, dgrad(w, g)> = <w, wgrad(x, g)>."""
    case = {"op": "conv", "dtype": "float32", "images": 2, "height": 9, "width": 10, "channels": 3, "filters": 5}
    case.update(kernel="3x5", stride="2x1", padding="1x2")
    forward, dgrad, wgrad = (dict(case, **{"pass": name}) for name in ("forward", "dgrad", "wgrad"))
    (x, w), (_, g) = session.operands(forward), session.operands(wgrad)
    y = session.function(forward)(x, w)
    shape = sorted(y.shape)
    assert shape == [2, 5, 5, 10], shape
    near([total(y, g), total(session.function(dgrad)(w, g), x), total(session.function(wgrad)(x, g), w)])


def product(a, b, batch):
    case = {"op": "gemm", "dtype": "float32", "m": 4, "n": 5, "k": 6, "batch": batch}
    case.update(transpose_a=a, transpose_b=b)
    x, y = session.operands(case)
    z = flat(session.function(case)(x, y))
    xs, ys = flat(x), flat(y)
    for g in range(batch):
        for i in range(4):
            for j in range(5):
                terms = (
                    xs[24 * g + (k * 4 + i if a else i * 6 + k)] * ys[30 * g + (j * 6 + k if b else k * 5 + j)]
                    for k in range(6)
                )
                near([sum(terms), z[20 * g + 5 * i + j]])


convolution()
if NAME != "tensorflow":  # whose CPU kernels have no channels-first convolution
    program.base.channels_first = lambda case, on_gpu: True
    convolution()
for a in (0, 1):
    for b in (0, 1):
        for batch in (1, 3):
            product(a, b, batch)

# several sets in one call: each is computed, none instead of another
case = {"op": "gemm", "dtype": "float16", "m": 4, "n": 5, "k": 6, "batch": 1}
sets = [session.operands(case) for _ in range(3)]
results = session.together(session.function(case), sets)()
session.wait(results)
assert len({tuple(flat(result)) for result in results}) == 3
assert session.finite(results)
broken = [tuple(operand * float("inf") for operand in sets[0])]
assert not session.finite(session.together(session.function(case), broken)())
about = session.about()
assert about["version"] and about["framework"]
try:
    backend.open("gpu:0", True)
except Exception as error:  # noqa: BLE001 - its class is the program's
    assert type(error).__name__ == "Unusable" and "sees no GPU" in str(error), repr(error)
else:
    raise AssertionError("a GPU where none is visible")
print("fine")
