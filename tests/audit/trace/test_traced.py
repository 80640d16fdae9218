"""Traced mode without TensorFlow: what the probe's files say, and every failure that needs no model."""

from __future__ import annotations

import stat
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tcprobe.audit.trace.model import read_models
from tcprobe.audit.trace.traced import TraceRequest, audited, trace, why_untraceable
from tcprobe.errors import InputError, MissingInput, TcprobeError, ToolError, UnreadableInput
from tcprobe.schema.model import GpuAsked, Place
from tcprobe.schema.op import OpRecord

FILE = "/home/me/model.py"


def op(**changes: Any) -> dict[str, Any]:
    return {
        "op": "net/dense/MatMul",
        "op_type": "MatMul",
        "executes": "yes",
        "pass": "forward",
        "layer": "net/dense",
        "layer_class": "Dense",
        "input_shapes": [[64, 31], [31, 8]],
        "input_dtypes": ["float16", "float16"],
        "output_shapes": [[64, 8]],
        "output_dtypes": ["float16"],
        "attributes": {"transpose_a": False},
        "repeats": 1.0,
        "source": None,
        "called_from": FILE + ":9",
        "compiled": False,
        "fed_by": {"layers": ["again/first"], "reshaped": False, "data": False},
        **changes,
    }


def layer(name: str, **changes: Any) -> dict[str, Any]:
    return {
        "name": name,
        "paths": [name],
        "kind": "Dense",
        "class_name": "Dense",
        "source": FILE + ":4",
        "dtype": "float16",
        "variable_dtype": "float32",
        "input_shapes": [[64, 31]],
        "output_shape": [64, 8],
        "config": {"units": 8, "kernel_size": [3, 3]},
        "inputs_from": [],
        "fed_by": [],
        "is_first": True,
        "is_last": False,
        "calls": 1,
        "trainable": True,
        **changes,
    }


def document(layers: list[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    unit = {
        "label": "net",
        "functions": ["step"],
        "own_step": True,
        "batch": 64,
        "batch_known": True,
        "layers": layers,
        "xla": None,
        "xla_by_default": False,
    }
    return {
        "policy": "mixed_float16",
        "keras": "3.1",
        "tensorflow": "2.20",
        "units": [{**unit, **changes}],
        "unseen": [{"what": "f()", "reason": "needs x", "place": FILE + ":7"}],
        "notes": ["a note"],
    }


def graph(*ops: dict[str, Any], training: bool = True) -> dict[str, Any]:
    return {"functions": [{"python_name": "step", "training": training, "calls_per_step": 1.0, "ops": list(ops)}]}


def test_an_op_and_a_layer_become_a_product_and_a_layer() -> None:
    first = layer("net/first", paths=["net/first", "again/first"])
    (model,) = read_models(document([first, layer("net/dense")]), graph(op()), FILE, None)
    (product,) = model.products
    assert product.record == OpRecord(
        "MatMul", ((64, 31), (31, 8)), (64, 8), {"transpose_a": False}, "float16", "forward"
    )
    assert (product.layer, product.calls, product.compiled) == ("net/dense", 1.0, None)
    assert product.inputs_from == ("net/first",)  # by the name of its first call
    assert product.place == Place(FILE, 4)
    assert model.layers[1].config == {"units": 8, "kernel_size": (3, 3)}
    assert model.layers[1].input_shapes == ((64, 31),)
    assert (model.batch, model.batch_known, model.policy, model.own_step) == (64, True, "mixed_float16", True)
    assert model.notes == ("a note",)
    (off,) = read_models({**document([first]), "tf32_off": True}, graph(op()), FILE, None)
    assert (model.tf32_off, off.tf32_off) == (False, True)
    assert [(u.what, u.place) for u in model.unseen] == [("f()", Place(FILE, 7))]


def test_a_step_in_several_sizes_is_the_mean_of_those_counted() -> None:
    def of(name: str, rows: int) -> dict[str, Any]:
        product = op(input_shapes=[[rows, 100], [100, 50]], output_shapes=[[rows, 50]])
        return {**graph(product)["functions"][0], "python_name": name}

    layers = [layer("net/dense")]
    shares = [{"calls": 3, "functions": ["step"], "layers": layers, "batch": 64},
              {"calls": 1, "functions": ["step#2"], "layers": layers, "batch": 64}]  # fmt: skip
    (model,) = read_models(
        document(layers, in_sizes=shares), {"functions": [of("step", 640), of("step#2", 6400)]}, FILE, None
    )
    assert [(p.record.input_shapes[0], p.calls) for p in model.products] == [((640, 100), 0.75), ((6400, 100), 0.25)]
    assert model.notes[1] == (  # 2 x 100 x 50 x (640, 6400), 2080 rows in the mean
        "sizes change from step to step: a step is the mean of the 4 that were counted, in 2 sets of sizes"
        " (20.8 MFLOP each; 6.40 MFLOP to 64.0 MFLOP)"
    )
    assert model.layers[0].name == "net/dense" and (model.batch, model.batch_known) == (64, True)


def test_a_step_of_unlike_batches_has_the_commonest_and_keeps_what_multiplies_in_one_set() -> None:
    """The first 2 of 20 steps are of 80 samples; a cell that multiplies nothing of its own in those stays."""
    config = {"units": 8, "activation": "tanh", "recurrent_activation": "sigmoid", "use_bias": True, "unroll": False}

    def lstm(batch: int) -> list[dict[str, Any]]:
        outer = {"kind": "LSTM", "class_name": "LSTM", "config": config, "input_shapes": [[batch, 7, 4]]}
        return [layer("net/lstm", **outer), layer("net/lstm/cell", kind="LSTMCell", class_name="LSTMCell")]

    layers = lstm(80)  # one cuDNN op there; the sets of 8 call the cell itself
    shares = [{"calls": 2, "functions": ["step"], "layers": layers, "batch": 80},
              {"calls": 18, "functions": ["step#2"], "layers": lstm(8)[1:], "batch": 8}]  # fmt: skip
    inside = graph(op(layer="net/lstm/cell"))["functions"][0]
    steps = [{**inside, "python_name": name} for name in ("step", "step#2")]
    given = document(layers, batch=80, in_sizes=shares, more_sizes=True)
    (model,) = read_models(given, {"functions": steps}, FILE, None)
    assert (model.batch, model.batch_known, model.batch_varies) == (8, False, True)
    assert "in 2 of at least 3 sets of sizes" in model.notes[1]
    assert [(one.layer, one.calls) for one in model.products][-1] == ("net/lstm/cell", 0.9)
    assert "net/lstm/cell" in {one.name for one in model.layers}


def test_gradients_outside_any_layer_have_the_name_of_their_forward_op() -> None:
    names = {"MatMul": None, "g/MatMul_1": "MatMul", "g/g/MatMul": "g/MatMul_1", "MatMul_1": None, "odd": "odd"}
    ops = [op(op=name, layer=None, gradient_of=of) for name, of in names.items()]
    (model,) = read_models(document([]), graph(*ops, op(gradient_of="MatMul")), FILE, None)
    assert [p.op for p in model.products] == ["MatMul", "MatMul", "MatMul", "MatMul_1", "odd", "net/dense/MatMul"]


def test_each_model_holds_what_its_script_was_told_of_a_gpu() -> None:
    asked = [{"call": "torch.cuda.is_available", "place": FILE + ":3"}, {"call": "jax.devices", "place": None}]
    (model,) = read_models({**document([]), "gpu_asked": asked}, graph(op()), FILE, None)
    assert model.gpu_asked == (GpuAsked("torch.cuda.is_available", Place(FILE, 3)), GpuAsked("jax.devices"))
    assert read_models(document([]), graph(op()), FILE, None)[0].gpu_asked == ()


def test_what_does_not_execute_or_train_is_no_product() -> None:
    (model,) = read_models(document([]), graph(op(executes="no"), op(executes="unknown")), FILE, None)
    assert len(model.products) == 1
    (model,) = read_models(document([]), graph(op(), training=False), FILE, None)
    assert model.products == ()


def test_an_op_of_the_users_own_stands_where_it_is_called() -> None:
    (model,) = read_models(document([]), graph(op(layer=None)), FILE, None)
    assert (model.products[0].layer, model.products[0].place) == (None, Place(FILE, 9))


def test_a_layer_that_a_layer_makes_stands_where_that_one_does() -> None:
    inner = layer("net/mha/query", source=None)
    (model,) = read_models(
        document([layer("net/mha", source=FILE + ":20"), inner]), graph(op(layer="net/mha/query")), FILE, None
    )
    assert model.layers[1].place == model.products[0].place == Place(FILE, 20)


def test_a_script_says_itself_what_xla_compiles() -> None:
    ops = graph(op(compiled=True), op())
    (model,) = read_models(document([], own_step=False), ops, FILE, None)
    assert (model.xla, [p.compiled for p in model.products]) == (True, [True, False])
    (model,) = read_models(document([], own_step=False), graph(op()), FILE, None)
    assert (model.xla, model.products[0].compiled) == (False, False)
    (model,) = read_models(document([], own_step=False, xla=True), graph(op()), FILE, None)
    assert (model.xla, model.products[0].compiled) == (True, True)


def test_a_loop_of_unknown_length_counts_once_and_says_so() -> None:
    (model,) = read_models(document([]), graph(op(repeats=None)), FILE, None)
    assert model.products[0].calls == 1.0
    assert "1 product runs in a loop" in model.notes[1]


def test_a_loop_of_known_length_counts_as_often_as_it_turns() -> None:
    ops = graph(op(repeats=6.0), op(repeats=2.0, at_least=True))
    (model,) = read_models(document([]), ops, FILE, None)
    assert [p.calls for p in model.products] == [6.0, 2.0]
    assert "1 product runs in a loop" in model.notes[1]


def test_a_recurrent_layers_loop_becomes_what_a_gpu_runs() -> None:
    lstm = layer(
        "net/lstm",
        kind="LSTM",
        class_name="LSTM",
        input_shapes=[[64, 10, 31]],
        config={"units": 33, "activation": "tanh", "recurrent_activation": "sigmoid"},
        fed_by=["net/embedding"],
    )
    cell = layer("net/lstm/cell", kind="LSTMCell", class_name="LSTMCell")
    loop = op(layer="net/lstm/cell", repeats=None)
    (model,) = read_models(document([lstm, cell]), graph(op(layer=None), loop, loop), FILE, None)
    assert [p.record.op_type for p in model.products] == ["MatMul", "CudnnRNNV3", "CudnnRNNBackpropV3"]
    assert model.products[1].record.input_shapes[0] == (10, 64, 31)
    assert model.products[1].inputs_from == ("net/embedding",)
    assert [one.name for one in model.layers] == ["net/lstm"]
    assert model.notes == ("a note",)


def test_a_cell_of_the_users_own_runs_once_for_each_time_step() -> None:
    rnn = layer("net/rnn", kind="RNN", class_name="RNN", input_shapes=[[64, 10, 31]], config={}, calls=2)
    loop = op(layer="net/rnn/cell", repeats=None)
    (model,) = read_models(document([rnn]), graph(loop), FILE, None)
    assert model.products[0].calls == 20.0
    told = op(layer="net/rnn/cell", repeats=10.0)  # each call of the layer has its own
    (model,) = read_models(document([rnn]), graph(told, told), FILE, None)
    assert [p.calls for p in model.products] == [10.0, 10.0]


def test_an_unknown_batch_is_the_users_or_1024() -> None:
    open_ = document([], batch=None, batch_known=False)
    (model,) = read_models(open_, graph(), FILE, None)
    assert (model.batch, model.batch_known) == (1024, False)
    (model,) = read_models(open_, graph(), FILE, 77)
    assert (model.batch, model.batch_known) == (77, True)


# --- failures --------------------------------------------------------------------------------------------


def script(folder: Path, text: str) -> Path:
    path = folder / "model.py"
    path.write_text(text, encoding="utf-8")
    return path


def failure(path: Path, timeout_s: float = 60.0, argv: tuple[str, ...] = (), run: bool = False) -> TcprobeError:
    with pytest.raises(TcprobeError) as raised:
        orders = {"factory": None, "args": {}, "run": run, "batch": None}
        done = audited(sys.executable, path, orders, argv, timeout_s)
        error = done.document["error"]
        raise InputError(path, error["message"], done.last_line if error["output"] else error["hint"])
    assert raised.value.exit_code == 2
    assert "\n" not in raised.value.message
    return raised.value


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(MissingInput, match="no such file"):
        trace(TraceRequest(tmp_path / "none.py"))
    with pytest.raises(UnreadableInput, match="folder"):
        trace(TraceRequest(tmp_path))
    (tmp_path / "binary.py").write_bytes(b"\x7fELF\0\1")
    with pytest.raises(InputError, match="no Python source"):
        trace(TraceRequest(tmp_path / "binary.py"))


def test_a_syntax_error_has_its_line(tmp_path: Path) -> None:
    path = script(tmp_path, "x = 1\ny = = 2\n")
    assert failure(path).message.endswith(f"SyntaxError: invalid syntax ({path}:2)")


def test_an_exception_has_its_line(tmp_path: Path) -> None:
    path = script(tmp_path, "import json\n\njson.loads('{')\n")
    assert f"({path}:3)" in failure(path).message
    assert "JSONDecodeError" in failure(path).message


def test_an_exit_has_its_status_and_last_words(tmp_path: Path) -> None:
    path = script(tmp_path, "import sys\nprint('no data in', sys.argv[1], file=sys.stderr)\nsys.exit(3)\n")
    error = failure(path, argv=("here",), run=True)
    assert "exited with status 3 before a training step" in error.message
    assert error.hint == "no data in here"


def test_a_script_without_a_training_step(tmp_path: Path) -> None:
    assert "ended before any training step" in failure(script(tmp_path, "print(1)"), run=True).message
    assert "never imports TensorFlow" in failure(script(tmp_path, "print(1)")).message


def test_an_endless_import_and_what_it_started_are_ended(tmp_path: Path) -> None:
    child = f"open({str(tmp_path / 'alive')!r}, 'a').write('.')"
    path = script(
        tmp_path,
        "import subprocess, sys, time\n"
        f"subprocess.Popen([sys.executable, '-c', \"import time\\nwhile True: time.sleep(.05); {child}\"])\n"
        "while True: time.sleep(1)\n",
    )
    for seconds in (2, 10, 40):  # where two processes do not start within two seconds, on a busy machine
        assert f"within {seconds} s" in failure(path, timeout_s=seconds).message
        if (tmp_path / "alive").exists():
            break
    size = (tmp_path / "alive").stat().st_size
    time.sleep(0.3)
    assert (tmp_path / "alive").stat().st_size == size > 0


def test_an_interpreter_that_dies(tmp_path: Path) -> None:
    path = script(tmp_path, "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n")
    assert "died of SIGSEGV" in failure(path).message


def test_interpreters_that_cannot_be_used(tmp_path: Path) -> None:
    nowhere = str(tmp_path / "python")
    assert "does not start" in str(why_untraceable(nowhere))
    for status, says in ((3, "TensorFlow is not installed"), (1, "no working Python")):
        fake = tmp_path / f"python{status}"
        fake.write_text(f"#!/bin/sh\nexit {status}\n", encoding="utf-8")
        fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
        assert says in str(why_untraceable(str(fake)))
    with pytest.raises(ToolError, match="not installed"):
        trace(TraceRequest(script(tmp_path, "x = 1"), python=str(tmp_path / "python3")))


def test_layers_whose_products_cannot_be_predicted_are_told_with_the_reason() -> None:
    image = {"input_shapes": [[64, None, 28, 16], [3, 3, 16, 8]], "op_type": "Conv2D", "layer": "open"}
    single = {"input_shapes": [[64, 28, 28, 16], [3, 3, 1, 16]], "op_type": "Conv2D", "layer": "single"}
    layers = [
        layer("open", kind="Conv2D", class_name="Conv2D", input_shapes=[[64, None, 28, 16]]),
        layer("single", kind="Conv2D", class_name="Own", input_shapes=[[64, 28, 28, 16]], config={"groups": 16}),
        layer("net/dense"),
    ]
    shapes = {"open": [64, None, 28, 8], "single": [64, 28, 28, 16]}
    ops = [op(**given, output_shapes=[shapes[given["layer"]]], fed_by=None) for given in (image, image, single)]
    (model,) = read_models({**document(layers), "unseen": []}, graph(*ops, op()), FILE, None)
    told = [(u.what, u.reason.split(",")[0]) for u in model.unseen]
    assert told == [
        ("Conv2D 'open'", "its model leaves height open"),
        ("Own 'single'", "groups of one channel run in a depthwise kernel"),
    ]


def test_depthwise_convolutions_are_no_products() -> None:
    ops = [op(op_type="DepthwiseConv2dNative" + suffix) for suffix in ("", "BackpropInput", "BackpropFilter")]
    (model,) = read_models(document([layer("net/dense", kind="DepthwiseConv2D")]), graph(*ops), FILE, None)
    assert model.products == ()
    assert [one.name for one in model.layers] == ["net/dense"]
