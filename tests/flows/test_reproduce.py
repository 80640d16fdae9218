"""Scripts of one op: the sizes as recorded and padded, what they refuse, and that they run."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from tcprobe.errors import UsageError
from tcprobe.flows.reproduce import script_of
from tcprobe.schema.profile import Metadata, Profile
from tests import warm
from tests.report.builders import table
from tests.support import run_with_torch

CONV = {"strides": [1, 1, 1, 1], "padding": "SAME", "data_format": "NHWC", "dilations": [1, 1, 1, 1], "_other": "x"}


def op(name: str, op_type: str, inputs: list[list[int | None]], output: list[int], **more: Any) -> dict[str, Any]:
    shapes = {"input_shapes": json.dumps(inputs), "output_shape": json.dumps(output)}
    known = {"function": "train_step", "executes": "yes", "pass": "wgrad", "layer": "net/conv"}
    dtype = more.pop("dtype", "float16")
    return {"op": name, "op_type": op_type, "output_dtype": dtype, "attributes": json.dumps(more), **shapes, **known}


def run(*rows: dict[str, Any], framework: str = "tensorflow 2.21.0") -> Profile:
    return Profile(Metadata("run_folder", framework=framework)).with_tables(table("graph_ops", *rows))


GRAPH = run(
    op("dense/MatMul", "MatMul", [[6, 10], [10, 20]], [6, 20], transpose_a=False, transpose_b=False),
    op("grad/dense/MatMul_1", "MatMul", [[6, 10], [6, 20]], [10, 20], transpose_a=True, transpose_b=False),
    op("conv/Filter", "Conv2DBackpropFilter", [[2, 8, 8, 8], [4], [2, 8, 8, 1]], [5, 5, 8, 1], **CONV),
    op("conv/Input", "Conv2DBackpropInput", [[4], [5, 5, 3, 63], [2, 8, 8, 63]], [2, 8, 8, 3], **CONV),
    op("conv/grouped", "Conv2D", [[2, 8, 8, 6], [3, 3, 3, 4]], [2, 8, 8, 4], **CONV),
    op("conv/even", "Conv2D", [[2, 8, 8, 8], [3, 3, 8, 16]], [2, 8, 8, 16], **CONV),
    op("odd/Relu", "Relu", [[6, 10]], [6, 10]),
    op("odd/open", "MatMul", [[None, 10], [10, 20]], [6, 20]),
    op("odd/dtype", "MatMul", [[6, 10], [10, 20]], [6, 20], dtype="qint8"),
)


def cases(name: str) -> tuple[Any, Any]:
    """Return what a script holds as recorded and padded."""
    held: dict[str, Any] = {}
    for line in script_of(GRAPH, name).splitlines():
        if line.startswith(("RECORDED = ", "PADDED = ")):
            exec(line, held)
    return held["RECORDED"], held["PADDED"]


@pytest.mark.parametrize(
    ("name", "padded"),
    [
        ("dense/MatMul", ([[6, 16], [16, 24]], [6, 24])),  # the batch is not innermost of anything
        ("MatMul_1", ([[6, 16], [6, 24]], [16, 24])),
        ("conv/Filter", ([[2, 8, 8, 8], [4], [2, 8, 8, 8]], [5, 5, 8, 8])),
        ("conv/Input", ([[4], [5, 5, 8, 64], [2, 8, 8, 64]], [2, 8, 8, 8])),
        ("conv/grouped", None),
        ("conv/even", None),
    ],
)
def test_the_padded_twin(name: str, padded: object) -> None:
    recorded, twin = cases(name)
    assert recorded[1] and twin == padded


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("conv/Filtre", "no such op"),
        ("conv", "4 ops are called so"),
        ("odd/Relu", "a script of Relu is not known"),
        ("odd/open", "its shapes are not all known"),
        ("odd/dtype", "a script in qint8 is not known"),
    ],
)
def test_what_cannot_be_written(name: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        script_of(GRAPH, name)


def test_a_script_of_pytorch_and_one_without_foreign_code() -> None:
    name = 'x"""\nraise SystemExit(9)\n"""'
    row = op(name, "aten::mm", [[6, 10], [10, 20]], [6, 20], dtype="c10::Half")
    text = script_of(run(row, framework="pytorch 2.9"), name)
    assert "import torch\n" in text and 'DTYPE = "float16"' in text and "raise SystemExit(9)\n" not in text
    compile(text, "bug.py", "exec")


def of_torch(op_type: str, *shapes: list[int], strides: list[list[int]] | None = None) -> dict[str, Any]:
    """A row as a profile of PyTorch has it: a scalar has no size, and nobody records a result."""
    attributes = json.dumps({} if strides is None else {"input_strides": strides})
    scalars: list[list[int]] = [[], []] if op_type == "aten::addmm" else []
    sizes = json.dumps([*shapes, *scalars])
    return {"op": op_type, "op_type": op_type, "dtype": "float32", "input_shapes": sizes, "attributes": attributes}


OF_TORCH = Profile(Metadata("kineto", framework="pytorch 2.9")).with_tables(
    table(
        "op_details",
        of_torch("aten::mm", [2, 4], [4, 6]),
        of_torch("aten::mm", [6, 10], [10, 20]),  # the largest of the name
        of_torch("aten::bmm", [3, 6, 10], [3, 10, 20], strides=[[60, 10, 1], [200, 1, 10]]),
        of_torch("aten::addmm", [20], [6, 10], [10, 20], strides=[[1], [1, 6], [1, 16], [], []]),
    )
)


@pytest.mark.parametrize(
    ("name", "recorded", "padded", "layout"),
    [
        ("aten::mm", ([[6, 10], [10, 20]], [6, 20]), ([[6, 16], [16, 24]], [6, 24]), "layout: not recorded"),
        # The second operand is a transposed one: its rows are innermost, and N need be no multiple for it.
        ("aten::bmm", ([[3, 6, 10], [3, 20, 10]], [3, 6, 20]), ([[3, 6, 16], [3, 24, 16]], [3, 6, 24]), None),
        (
            "aten::addmm",
            ([[20], [10, 6], [20, 10]], [6, 20]),
            ([[24], [16, 8], [24, 16]], [8, 24]),
            "layout: strides [16, 1] of [20, 10] as recorded, contiguous here",
        ),
    ],
)
def test_a_product_of_pytorch_lies_as_it_did(name: str, recorded: Any, padded: Any, layout: str | None) -> None:
    held: dict[str, Any] = {}
    text = script_of(OF_TORCH, name)
    exec("\n".join(line for line in text.splitlines() if line.startswith(("RECORDED", "PADDED", "FACTS"))), held)
    assert (held["RECORDED"], held["PADDED"]) == (recorded, padded)
    assert (layout is None) == ("layout" not in text) and (layout or "") in text


def test_scripts_of_pytorch_run() -> None:
    """In one process: PyTorch takes seconds to import."""
    names = ("aten::mm", "aten::bmm", "aten::addmm")
    runs = "import sys\nfor text in sys.argv[1:]: exec(text, {'__name__': '__main__'})"
    done = run_with_torch("-c", runs, *(script_of(OF_TORCH, name) for name in names))
    assert done.stdout.count("\nthe padded one takes ") == len(names)


@pytest.mark.tensorflow
def test_a_script_runs() -> None:
    pytest.importorskip("tensorflow", reason="TensorFlow is not installed")
    done = subprocess.run([warm.python(), "-c", script_of(GRAPH, "conv/Filter")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    first, *_, ratio = done.stdout.splitlines()
    assert first == "op: conv/Filter (Conv2DBackpropFilter)" and ratio.startswith("the padded one takes ")
