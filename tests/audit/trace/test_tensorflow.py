"""Traced mode with a real TensorFlow: every way to write a model or a training loop, and every way to fail."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tcprobe.audit.source.read import read_model, read_source, with_arguments
from tcprobe.audit.trace.traced import TraceRequest, audited, trace
from tcprobe.errors import InputError, TcprobeError, UsageError
from tcprobe.rules.model.sizes import LayerSizes
from tcprobe.schema.model import InputShape, Layer, Model, Product
from tests import warm
from tests.support import ROOT, mostly_long, needs_tensorflow

SCRIPTS = Path(__file__).parent / "scripts"
pytestmark = [
    pytest.mark.tensorflow,
    needs_tensorflow,
]


@cache
def models(script: str, *argv: str, run: bool = False, batch: int | None = None) -> dict[str, Model]:
    request = TraceRequest(SCRIPTS / script, run=run, argv=argv, batch=batch, python=warm.python())
    return {model.label: model for model in trace(request)}


def line_of(script: str, text: str) -> int:
    lines = (SCRIPTS / script).read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def layer(model: Model, end: str) -> Layer:
    return next(one for one in model.layers if one.name.endswith(end))


def products(model: Model, end: str, pass_: str | None = None) -> list[Product]:
    found = [p for p in model.products if p.layer is not None and p.layer.endswith(end)]
    return [p for p in found if pass_ in (None, p.record.pass_)]


# --- models ----------------------------------------------------------------------------------------------


def test_every_model_of_a_file_is_found_and_parts_of_others_are_none() -> None:
    assert list(models("models.py")) == ["sequential", "functional", "called", "nested"]
    first = models("models.py")["sequential"]
    assert [(u.what, "input shape" in u.reason) for u in first.unseen] == [("never", True)]
    assert first.policy == "mixed_float16"
    assert first.mode == "traced"
    assert first.own_step
    keras_3 = not (first.keras or "").startswith("2.")
    assert (first.xla, first.xla_by_default) == (keras_3, keras_3)  # what Keras 3 does with a step that `fit` makes


def test_a_sequential_model_gets_a_step_with_all_three_passes() -> None:
    model = models("models.py")["sequential"]
    assert (model.batch, model.batch_known) == (1024, False)
    shapes = [(p.record.pass_, p.record.input_shapes) for p in model.products]
    assert sorted(shapes) == [
        ("dgrad", ((1024, 10), (63, 10))),
        ("forward", ((1024, 32), (32, 63))),
        ("forward", ((1024, 63), (63, 10))),
        ("wgrad", ((1024, 32), (1024, 63))),
        ("wgrad", ((1024, 63), (1024, 10))),
    ]
    first, last = layer(model, "/dense"), layer(model, "/dense_1")
    assert (first.is_first, first.is_last, last.is_first, last.is_last) == (True, False, False, True)
    assert (first.kind, first.config["units"], first.config["activation"]) == ("Dense", 63, "relu")
    assert first.place is not None
    assert first.place.line == line_of("models.py", "layers.Dense(63")
    assert products(model, "/dense_1", "forward")[0].inputs_from == (first.name,)  # through relu and dropout
    assert last.inputs_from == ("sequential/dropout",)


def test_a_functional_model_with_its_own_batch_a_residual_and_a_shared_layer() -> None:
    model = models("models.py")["functional"]
    assert (model.batch, model.batch_known) == (48, True)
    first, second = (one for one in model.layers if one.kind == "Conv2D")
    assert first.place == second.place
    assert products(model, second.name, "forward")[0].inputs_from == (first.name,)
    shared = layer(model, "/shared")
    assert shared.calls == 2
    fed = [p.inputs_from for p in products(model, shared.name, "forward")]
    assert sorted(map(len, fed)) == [1, 2]  # the sum of both convolutions, and the Dense between
    assert {name for names in fed for name in names} >= {first.name, second.name}
    lasts = {one.name for one in model.layers if one.is_last}
    assert len(lasts) == 2
    assert all(p.inputs_from == (shared.name,) for name in lasts for p in products(model, name, "forward"))  # joined
    assert not products(model, first.name, "dgrad")


def test_a_subclassed_model_with_blocks_attention_and_a_recurrent_layer() -> None:
    model = models("models.py")["called"]
    wide = [one for one in model.layers if one.kind == "Dense" and one.config["units"] == 160]
    assert [one.place.line for one in wide if one.place] == [line_of("models.py", "layers.Dense(4 * units")] * 2
    assert len({one.name for one in wide}) == 2
    assert {one.class_name for one in model.layers if one.kind == "Layer"} == {"Block"}
    assert wide[0].dtype == "float16"
    assert wide[0].variable_dtype == "float32"
    query = layer(model, "/query")
    assert query.place is not None
    assert query.place.line == line_of("models.py", "layers.MultiHeadAttention")
    assert products(model, "/query", "forward")[0].inputs_from == (layer(model, "/embedding").name,)
    out = layer(model, "/" + next(one.name.split("/")[-1] for one in model.layers if one.config.get("units") == 7))
    assert (out.dtype, out.is_last) == ("float32", True)
    lstm = [p.record for p in products(model, "/lstm")]
    assert [r.op_type for r in lstm] == ["CudnnRNNV3", "CudnnRNNBackpropV3"]
    assert lstm[0].input_shapes[0] == (12, 1024, 40)
    assert products(model, out.name, "forward")[0].inputs_from == (layer(model, "/lstm").name,)
    assert not [note for note in model.notes if "unknown length" in note]


def test_a_nested_model_is_one_model() -> None:
    model = models("models.py")["nested"]
    assert [p.record.input_shapes[1] for p in model.products if p.record.pass_ == "forward"] == [(8, 16), (16, 2)]
    assert len({p.layer for p in model.products}) == 2


def test_only_functions_that_look_like_makers_of_models_are_called() -> None:
    found = models("functions.py", batch=77)
    assert list(found) == ["build_model"]
    model = found["build_model"]
    assert (model.batch, model.batch_known) == (77, True)
    unseen = {u.what: (u.reason, u.place.line if u.place else None) for u in model.unseen}
    assert unseen["build_pair()"] == ("needs width", line_of("functions.py", "def build_pair"))
    reason, line = unseen["broken_model()"]
    assert "expected min_ndim=4" in reason
    assert line == line_of("functions.py", "def broken_model")


def test_a_factory_with_arguments_returns_several_models() -> None:
    request = TraceRequest(
        SCRIPTS / "functions.py", "build_pair", {"width": "7 ", "depth": "1"}, batch=8, python=warm.python()
    )
    found = trace(request)
    assert [m.label for m in found] == ["build_pair['a']", "build_pair['b']"]
    assert all(m.products[0].record.input_shapes == ((8, 20), (20, 7)) for m in found)


# --- scripts ---------------------------------------------------------------------------------------------


@pytest.mark.long
def test_the_bad_gan_is_seen_with_its_sizes_lines_and_batch() -> None:
    script = ROOT / "workloads" / "train_gan.py"
    (model,) = trace(TraceRequest(script, run=True, argv=("--sizes", "bad"), python=warm.python()))
    assert (model.label, model.batch, model.batch_known, model.own_step) == ("train_gan.py", 4090, True, False)
    lines = script.read_text(encoding="utf-8").splitlines()

    def line(layer: Layer) -> str:
        assert layer.place is not None
        assert layer.place.file == str(script)
        return lines[layer.place.line - 1].strip()

    sizes = {line(one): one.output_shape for one in model.layers if one.kind in ("Dense", "Conv2D")}
    assert sizes["layers.Dense(7 * 7 * sizes.depth),"] == (4090, 3087)
    assert sizes['layers.Conv2D(first, 5, padding="same", activation="tanh"),'] == (4090, 7, 7, 63)
    assert sizes['layers.Conv2D(second, 5, padding="same", activation="tanh"),'] == (4090, 14, 14, 31)
    assert sizes['layers.Conv2D(third, 5, padding="same", activation="tanh"),'] == (4090, 28, 28, 7)
    assert sizes['layers.Conv2D(1, 5, padding="same"),'] == (4090, 28, 28, 1)
    first = products(model, "generator/conv2d", "forward")[0]
    assert first.inputs_from == ("generator/dense",)  # through the reshape
    image = next(one for one in model.layers if one.name.startswith("discriminator/conv2d"))
    assert (image.is_first, image.input_shapes) == (True, ((4090, 28, 28, 1),))
    assert image.calls == 4  # real and fake images, for either half of the step
    passes = [p.record.pass_ for p in products(model, "generator/conv2d_1")]
    assert sorted(passes) == ["dgrad", "forward", "forward", "wgrad"]
    assert {p.compiled for p in model.products} == {False}


def test_an_import_that_trains_is_stopped_before_its_second_batch() -> None:
    found = models("fit.py")
    assert list(found) == ["fit.py"]
    model = found["fit.py"]
    assert not (SCRIPTS / "trained").exists()
    assert (model.batch, model.batch_known, model.own_step) == (96, True, False)
    assert "has no __main__ guard" in model.notes[0]
    assert model.products[0].record.input_shapes == ((96, 28, 28, 1), (3, 3, 1, 31))
    assert [one.calls for one in model.layers] == [1, 1, 1]
    assert (model.keras or "").startswith("2.") or model.xla is True


def test_functions_called_in_turn_count_as_often_as_a_step_calls_them() -> None:
    model = models("critic.py", "512", run=True)["critic.py"]
    assert (model.batch, model.batch_known) == (512, True)
    calls = {p.calls for p in products(model, "critic/dense_1", "wgrad")}
    assert calls == {5.0}
    assert [p.calls for p in products(model, "generator/dense", "wgrad")] == [1.0]
    assert layer(model, "generator/dense").calls == 6
    assert model.notes == ()
    assert None not in {size for p in model.products for shape in p.record.input_shapes for size in shape or ()}


def test_an_eager_loop_runs_one_step_and_may_fail_behind_it() -> None:
    model = models("eager.py", run=True)["eager.py"]
    assert (model.batch, model.tf32_off) == (24, True)
    assert [(p.record.pass_, p.record.input_shapes) for p in model.products][:1] == [
        ("forward", ((24, 33), (33, 65))),
    ]
    assert sorted(str(p.record.pass_) for p in model.products) == ["dgrad", "forward", "forward", "wgrad", "wgrad"]
    assert "ValueError: no step but this" in model.notes[0]


def test_an_eager_loop_tells_what_feeds_each_layer() -> None:
    model = models("eager.py", run=True)["eager.py"]
    first, last = model.layers
    assert (first.is_first, first.inputs_from) == (True, ())
    assert (last.is_first, last.inputs_from) == (False, (first.name,))
    fed = [p.inputs_from for p in model.products if p.record.pass_ == "forward"]
    assert fed == [(), (first.name,)]


def test_an_eager_loop_has_its_recurrent_layers_as_a_gpu_runs_them() -> None:
    model = models("eager_recurrent.py")["eager_recurrent.py"]
    assert [(one.kind, one.input_shapes[0], one.calls) for one in model.layers] == [
        ("LSTM", (100, 20, 24), 1),
        ("Dense", (100, 250), 1),
    ]
    assert [(p.layer, p.record.pass_) for p in model.products] == [
        (model.layers[0].name, "forward"),
        (model.layers[0].name, "wgrad"),
        *((model.layers[1].name, way) for way in ("forward", "dgrad", "wgrad")),
    ]


@pytest.mark.parametrize(
    ("kind", "way"),
    mostly_long(
        product(("grey", "colour", "transposed", "dense", "sequence"), ("tape", "eager", "gradients", "nested")),
        lambda case: case[1] == ("tape" if case[0] in ("transposed", "dense") else "nested"),
    ),
)
def test_a_gradient_penalty_names_the_sizes_of_every_product_as_its_layer_does(kind: str, way: str) -> None:
    """Second-order products too: of the gradient of a gradient, every multiplication of the layer is one."""
    model = models("penalty.py", kind, way, run=True)["penalty.py"]
    sizes = LayerSizes(model)
    for one in model.products:
        known = model.layer(one.layer)
        assert known is not None
        shape = known.input_shapes[0] or ()
        names = ("inputs", "units") if known.kind == "Dense" else ("channels", "filters")
        own = known.config["units" if known.kind == "Dense" else "filters"]
        assert sorted(sizes.named(one)) == sorted(zip(names, (shape[-1], own), strict=True))
    passes = {str(p.record.pass_) for p in model.products}
    assert passes == {"forward", "dgrad", "wgrad", "other"}
    again = [p for p in model.products if p.record.pass_ == "other"]
    assert {p.record.attributes["form"] for p in again} == {"forward"}
    assert {p.record.op_type for p in again} <= {"MatMul", "Conv2D", "Conv2DBackpropInput"}


def test_a_gradient_penalty_has_its_products_once_each() -> None:
    """Scores are not returned, so that the last layer's two forward products are never needed.

    dgrad: of the loss two, of the penalty three, and one where its gradient goes back through an activation. wgrad:
    of the loss three; of the penalty's gradient the first two layers' twice, through dgrad and activation, the last's
    once.
    """
    model = models("penalty.py", "dense", "tape", run=True)["penalty.py"]
    counts = Counter(str(p.record.pass_) for p in model.products)
    assert counts == {"forward": 4, "dgrad": 6, "wgrad": 8, "other": 2}


def test_layers_of_one_line_have_the_columns_that_reading_finds() -> None:
    path = SCRIPTS / "one_line.py"
    source = read_source(path)
    (read,) = read_model(source, 256)
    traced = with_arguments(models("one_line.py", batch=256)["model"], {source.path: source})
    wanted = {layer.name: (layer.place, layer.arguments["units"]) for layer in read.layers if layer.kind == "Dense"}
    found = {n.rpartition("/")[2]: one for one in traced.layers if (n := one.name) and one.kind == "Dense"}
    assert len(wanted) == 7
    assert {name: (one.place, one.arguments["units"]) for name, one in found.items()} == wanted


def test_a_script_goes_on_to_its_next_models_and_changes_nothing() -> None:
    before = sorted(SCRIPTS.iterdir())
    found = models("onward.py")
    first = line_of("onward.py", "history = first.fit")
    second = line_of("onward.py", "second.fit(x, y, batch_size=32)")
    assert list(found) == [f"onward.py:{first}", f"onward.py:{second}"]
    assert [model.batch for model in found.values()] == [64, 32]
    units = [{one.config.get("units") for one in model.layers} for model in found.values()]
    assert units == [{512, 16}, {4090, 16}]
    assert [len(model.products) for model in found.values()] == [5, 5]
    assert sorted(SCRIPTS.iterdir()) == before
    ((train,),) = {model.notes for model in found.values()}  # all of it works, what deletes a file among it
    assert "each step is audited" in train
    assert not any(model.incomplete for model in found.values())


def test_the_old_way_ends_at_the_first_step() -> None:
    request = TraceRequest(SCRIPTS / "onward.py", first_step=True, python=warm.python())
    (model,) = trace(request)
    assert (model.label, model.batch) == ("onward.py", 64)
    assert "it was stopped there" in model.notes[0]


def test_the_old_way_ends_in_a_fit_of_one_batch(tmp_path: Path) -> None:
    layers = "[keras.Input((64,)), keras.layers.Dense(units)]"
    rows = "np.zeros((32, 64)), np.zeros((32, units)), batch_size=32"
    text = (
        "import keras, pathlib\nimport numpy as np\nfor units in (40, 72):\n"
        f"    model = keras.Sequential({layers})\n    model.compile('adam', 'mse')\n    model.fit({rows})\n"
        "pathlib.Path(__file__).with_name('written').touch()\n"
    )
    (tmp_path / "fits.py").write_text(text, encoding="utf-8")
    (model,) = trace(TraceRequest(tmp_path / "fits.py", run=True, first_step=True, python=warm.python()))
    assert [layer.config["units"] for layer in model.layers] == [40]
    assert not (tmp_path / "written").exists()


def test_a_loop_of_the_users_own_ends_the_script() -> None:
    (model,) = models("loops.py", run=True).values()
    assert (model.batch, model.incomplete, model.notes) == (32, True, ())
    assert max(one.config["units"] for one in model.layers) == 72
    assert len(model.products) == 5


def test_no_step_has_products_of_two_loops() -> None:
    """Nor of what is computed between them; two functions in one loop are a step, though each was called alone."""
    found = trace(TraceRequest(SCRIPTS / "once.py", python=warm.python()))
    steps = [{(p.record.input_shapes[0] or ())[0] for p in products(model, "", "forward")} for model in found]
    assert steps == [{16}, {32}, {48}, {64}, {80}]
    units = [sorted({one.config["units"] for one in model.layers}) for model in found]
    assert units == [[8, 40], [8, 72], [8, 200], [8, 104], [8, 136, 232]]
    assert [len(model.products) for model in found] == [5, 5, 5, 5, 10]


def test_replicas_share_a_batch_whose_size_is_known() -> None:
    found = models("distributed.py")
    assert [max(one.config["units"] for one in model.layers) for model in found.values()] == [40, 72, 136]
    rows = [{p.record.input_shapes[0][0] for p in products(m, "", "forward")} for m in found.values()]  # type: ignore[index]
    assert rows == [{48}, {32}, {16}]


def test_a_script_has_some_seconds_from_its_first_training_call_on() -> None:
    orders = {"factory": None, "args": {}, "run": True, "batch": None, "seconds": 5}
    done = audited(warm.python(), SCRIPTS / "loops.py", orders, ("endless",), 100.0)
    assert len(done.document["units"]) == 1
    assert [n for n in done.document["notes"] if "5 s after its first training call" in n]
    assert done.document["incomplete"]


def test_what_was_known_when_the_time_ran_out_is_kept() -> None:
    orders = {"factory": None, "args": {}, "run": True, "batch": None, "seconds": 1000}
    for seconds in (8.0, 30.0, 90.0):  # a busy machine may not come to a step in the first of these
        with suppress(InputError):
            done = audited(warm.python(), SCRIPTS / "loops.py", orders, ("endless",), seconds)
            if done.document["units"]:
                break
    assert len(done.document["units"]) == 1
    assert "the limit on its time" in done.document["notes"][-1]
    assert done.document["incomplete"]
    assert [f["python_name"] for f in done.graph["functions"] if f["training"]]


def test_models_get_a_step_where_their_data_cannot_be_had() -> None:
    """One that lacks a layer, because the script raised before it added that, is not judged."""
    for run in (True, False):
        found = models("no_data.py", run=run)
        assert set(found) == {"inside", "outside"}
        assert all(model.own_step and model.incomplete for model in found.values())
        assert [one.config["units"] for one in found["inside"].layers] == [250, 8]
        (note,) = {note for model in found.values() for note in model.notes if "raised" in note}
        assert f"no_data.py:{line_of('no_data.py', 'outside.fit(files)')}" in note
        assert "1 more of its statements" in note


@pytest.mark.skipif((Path.home() / ".keras/datasets/mnist.npz").exists(), reason="the data are on this machine")
def test_data_of_keras_that_are_not_here_have_stand_ins_and_relative_folders_are_the_scripts() -> None:
    (model,) = models("data_and_path.py", run=True).values()
    shapes = [p.record.input_shapes for p in model.products if p.record.pass_ == "forward"]
    assert shapes == [((96, 784), (784, 250)), ((96, 250), (250, 10))]
    stands_in = "arrays of the same shapes and dtypes stand for data that are not on this machine: keras.datasets.mnist"
    assert (model.notes, model.incomplete) == ((stands_in,), False)


def test_a_ready_made_model_without_its_weights_is_built_all_the_same() -> None:
    ((label, model),) = models("no_weights.py").items()
    assert (label, model.batch, model.own_step, model.incomplete) == ("no_weights.py", 24, False, False)
    assert layer(model, "Conv1").place is not None
    assert [p.record.input_shapes for p in products(model, "dense", "forward")] == [((24, 1280), (1280, 250))]


def test_a_model_is_compiled_as_its_script_says_and_the_keras_inside_tensorflow_is_one_too() -> None:
    """That one's `fit` fails with newer versions of TensorFlow; the batch that it was given is known all the same."""
    first, second = models("two_keras.py").values()
    assert [model.xla for model in (first, second)] == [False, False]
    assert [model.batch for model in (first, second)] == [96, 48]
    units = line_of("two_keras.py", "private.add(Dense(62")
    assert [(one.config["units"], one.place.line if one.place else 0) for one in second.layers] == [
        (62, units),
        (7, units + 1),
    ]
    assert {p.layer for p in second.products} == {one.name for one in second.layers}


def test_models_that_were_not_trained_count_what_the_source_says_of_their_batch() -> None:
    """One has the samples of the call that built it."""
    for model in trace(TraceRequest(SCRIPTS / "unread_data.py", read_batch=40, python=warm.python())):
        assert (model.own_step, model.batch, model.batch_known) == (True, 40, True)
        assert model.xla is False or model.label == "late"  # it alone is compiled
        assert {p.record.input_shapes[0][0] for p in products(model, "", "forward")} == {40}  # type: ignore[index]
    unread = models("unread_data.py")["model"]
    assert (unread.batch, unread.batch_known) == (1024, False)


def test_inputs_that_a_model_leaves_open_have_the_users_shapes() -> None:
    given = {None: (64,), "second": (96,), "first": (48,), "image": (32, 32, 3), "text": (20,)}
    shapes = tuple(InputShape(name, sizes) for name, sizes in given.items())
    found = {
        m.label: m for m in trace(TraceRequest(SCRIPTS / "open_shapes.py", input_shapes=shapes, python=warm.python()))
    }
    assert list(found) == ["stacked", "two", "both"]
    inner = {m: [p.record.input_shapes[1] for p in found[m].products if p.record.pass_ == "forward"] for m in found}
    assert inner["stacked"] == [(64, 56), (56, 8)]
    assert sorted(inner["two"]) == [(48, 24), (96, 40)]
    assert found["both"].unseen == ()
    image = next(p for p in found["both"].products if p.record.op_type == "Conv2D")
    assert image.record.input_shapes[0] == (1024, 32, 32, 3)
    reason = models("open_shapes.py")["both"].unseen[0].reason
    assert "--input-shape" in reason


# --- failures --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "kind", "says"),
    [
        (("functions.py", "build_pair", {}), UsageError, "build_pair needs width"),
        (("functions.py", "build_model", {"size": "3"}), UsageError, "build_model takes no argument size"),
        (("functions.py", "broken_model", {}), InputError, f"functions.py:{line_of('functions.py', 'layers.Conv2D')}"),
    ],
)
def test_a_factory_that_gives_no_model(request_: tuple[str, str, Any], kind: type[TcprobeError], says: str) -> None:
    script, factory, args = request_
    with pytest.raises(kind) as raised:
        trace(TraceRequest(SCRIPTS / script, factory, args, python=warm.python()))
    assert says in raised.value.message
    assert "\n" not in raised.value.message


def test_the_features_of_joined_layers_come_from_all_of_them() -> None:
    model = models("concatenated.py")["joins"]
    (growth,) = products(model, "/growth", "forward")
    assert set(growth.inputs_from) == {"joins/stem", "joins/point", "joins/after"}
    (head,) = products(model, "/head", "forward")
    assert set(head.inputs_from) == {"joins/stem", "joins/point", "joins/after", "joins/growth"}


def test_a_depthwise_convolution_is_no_product_and_keeps_features_apart() -> None:
    model = models("concatenated.py")["joins"]
    assert not products(model, "/deep")
    assert not products(model, "/wider")
    assert layer(model, "/deep").kind == "DepthwiseConv2D"
    assert products(model, "/point", "forward")[0].inputs_from == ("joins/stem",)
    assert products(model, "/after", "forward")[0].inputs_from == ("joins/wider",)  # two of each: its own features
    assert {p.record.pass_ for p in products(model, "/point")} == {"forward", "dgrad", "wgrad"}


def test_only_the_layer_that_makes_the_output_is_last() -> None:
    model = models("concatenated.py")["joins"]
    assert [one.name for one in model.layers if one.is_last] == ["joins/identity"]
    shows = models("concatenated.py")["shows"]  # its attention's weights are an output too, and lie inside
    assert [one.name for one in shows.layers if one.is_last] == ["shows/attend", "shows/out"]


def test_a_model_that_fails_costs_the_others_nothing() -> None:
    found = models("concatenated.py")
    assert list(found) == ["joins", "shows", "anywhere"]
    (broken,) = [u for u in found["joins"].unseen if u.what == "broken"]
    assert "called a second time" in broken.reason
    assert "concatenated.py" in broken.reason


def test_sizes_that_a_model_leaves_open_are_told() -> None:
    model = models("concatenated.py")["anywhere"]
    assert len(products(model, "/open")) == 2
    assert [(u.what.split()[0], "leaves" in u.reason) for u in model.unseen] == [("Conv2D", True)]
