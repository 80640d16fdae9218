"""Traced mode where code asks for a GPU: it is answered as on a machine with one, though nothing runs on it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tcprobe.audit.source.read import read_model, read_source
from tcprobe.audit.trace.traced import TraceRequest, trace
from tcprobe.errors import InputError
from tcprobe.hardware import lookup_gpu
from tcprobe.schema.model import Model
from tests import warm
from tests.support import needs_tensorflow

pytestmark = [
    pytest.mark.tensorflow,
    needs_tensorflow,
]
HEAD = "import os\nimport tensorflow as tf\n"
MODEL = "model = tf.keras.Sequential([tf.keras.Input((8,)), tf.keras.layers.Dense(units)])\n"
GUIDE = """import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers, mixed_precision
mixed_precision.set_global_policy("mixed_float16")
inputs = keras.Input(shape=(784,), name="digits")
if tf.config.list_physical_devices("GPU"):
    print("The model will run with 4090 units on a GPU")
    num_units = 4090
else:
    num_units = 64
x = layers.Dense(num_units, activation="relu", name="dense_1")(inputs)
x = layers.Dense(num_units, activation="relu", name="dense_2")(x)
unused = layers.Dense(30, activation="softmax", name="unused")(x)
outputs = layers.Dense(10, activation="softmax", name="predictions")(x)
model = keras.Model(inputs=inputs, outputs=outputs)
model.compile(loss="sparse_categorical_crossentropy", optimizer=keras.optimizers.RMSprop())
model.fit(tf.zeros((16384, 784)), tf.zeros((16384,)), batch_size=8192)
"""
QUESTIONS = """
gpus = tf.config.list_physical_devices("GPU")
assert len(gpus) == 1 and gpus[0].device_type == "GPU", gpus
for listed in (tf.config.experimental.list_physical_devices, tf.compat.v1.config.list_physical_devices):
    assert listed("GPU") == gpus == [d for d in listed() if d.device_type != "CPU"]
assert tf.config.list_physical_devices("TPU") == []
for gpu in gpus:
    tf.config.experimental.set_memory_growth(gpu, True)
    assert tf.config.experimental.get_memory_growth(gpu)
    assert tf.config.experimental.get_device_details(gpu)["compute_capability"] >= (8, 0)
tf.config.set_logical_device_configuration(gpus[0], [tf.config.LogicalDeviceConfiguration(memory_limit=1024)])
tf.config.experimental.set_virtual_device_configuration(gpus[0], [])
tf.config.set_visible_devices(gpus[0], "GPU")
tf.config.set_visible_devices(gpus, "GPU")
tf.config.set_visible_devices(tf.config.list_physical_devices())
tf.config.set_soft_device_placement(False)
assert tf.config.get_visible_devices("GPU") == gpus
logical = tf.config.list_logical_devices("GPU")
assert [d.name for d in logical] == ["/device:GPU:0"]
assert tf.test.is_gpu_available() and tf.compat.v1.test.is_gpu_available(cuda_only=True)
assert tf.test.gpu_device_name() == "/device:GPU:0"
assert tf.test.is_built_with_cuda() and tf.test.is_built_with_gpu_support()
assert tf.config.experimental.get_memory_info("GPU:0")["peak"] == 0
tf.config.experimental.reset_memory_stats("GPU:0")


@tf.function
def inside():
    return tf.constant(len(tf.config.list_physical_devices("GPU")))


assert inside() == 1
with tf.device("/GPU:0"):
    assert float(tf.reduce_sum(tf.ones((2, 2)) @ tf.ones((2, 2)))) == 8
with tf.device(tf.test.gpu_device_name()):
    lstm = tf.keras.layers.LSTM(4)(tf.zeros((2, 3, 5)))
for strategy in (
    tf.distribute.MirroredStrategy(),
    tf.distribute.MirroredStrategy([d.name for d in logical]),
    tf.distribute.OneDeviceStrategy("/gpu:0"),
):
    assert strategy.num_replicas_in_sync == 1
units = 4090
with tf.device("/GPU:0"), strategy.scope():
"""


def traced(folder: Path, text: str, gpu: str = "a100-sxm-40") -> Model:
    file = folder / "model.py"
    file.write_text(text)
    (model,) = trace(TraceRequest(file, gpu=lookup_gpu(gpu), python=warm.python()))
    return model


def units(folder: Path, text: str) -> int:
    return int(traced(folder, HEAD + text + MODEL).layers[-1].config["units"])


def test_a_script_finds_one_gpu_and_may_set_it_up(tmp_path: Path) -> None:
    model = traced(tmp_path, f"{HEAD}{QUESTIONS}    {MODEL}")
    assert (model.layers[-1].config["units"], model.incomplete) == (4090, False)
    first = model.gpu_asked[0]
    assert (first.call, first.place and first.place.line) == ("tensorflow.config.list_physical_devices", 4)
    calls = {asked.call.rpartition(".")[2] for asked in model.gpu_asked}
    assert calls >= {"list_logical_devices", "is_gpu_available", "gpu_device_name", "is_built_with_cuda"}


def test_a_script_that_ends_where_there_is_no_gpu_goes_on(tmp_path: Path) -> None:
    asks = (
        "if not tf.config.list_physical_devices('GPU'):\n    raise SystemError('GPU device not found')\nunits = 4090\n"
    )
    assert units(tmp_path, asks) == 4090


def test_a_script_that_does_not_ask_is_told_nothing(tmp_path: Path) -> None:
    model = traced(tmp_path, f"{HEAD}units = 8\n{MODEL}model.compile('sgd', 'mse')\n")
    assert model.gpu_asked == ()  # Keras asks too, and runs on the CPU


@pytest.mark.parametrize("hidden", ["", "-1"])
def test_a_script_that_hides_the_gpu_has_none(tmp_path: Path, hidden: str) -> None:
    hides = f"os.environ['CUDA_VISIBLE_DEVICES'] = '{hidden}'\n"
    assert units(tmp_path, f"{hides}units = 4090 if tf.config.list_physical_devices('GPU') else 64\n") == 64


def test_a_script_that_reads_which_gpus_it_may_use_finds_one_number(tmp_path: Path) -> None:
    asks = "visible = os.environ['CUDA_VISIBLE_DEVICES'].split(',')\nassert [int(n) for n in visible] == [-1]\n"
    assert units(tmp_path, f"{asks}units = 8 * len(visible)\n") == 8


def test_a_gpu_that_tensorflow_does_not_see_is_there_all_the_same(tmp_path: Path) -> None:
    hides = "tf.config.set_visible_devices([], 'GPU')\nthere = len(tf.config.list_physical_devices('GPU'))\n"
    asks = "seen = tf.test.is_gpu_available() or tf.config.list_logical_devices('GPU')\n"
    assert units(tmp_path, f"{hides}{asks}units = 8 if seen else 16 * there\n") == 16


def test_other_frameworks_answer_as_well(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text(
        "import types\ncuda = types.SimpleNamespace(is_available=lambda: False, device_count=lambda: 0)\n"
    )
    (tmp_path / "jax.py").write_text("def devices(backend=None):\n    raise RuntimeError(f'no backend {backend}')\n")
    product = "8 * torch.cuda.is_available() * torch.cuda.device_count() * len(jax.devices('gpu'))"
    asks = f"import jax, torch\nunits = {product}\n"
    assert units(tmp_path, asks) == 8
    with pytest.raises(InputError, match="no backend tpu"):
        units(tmp_path, "import jax\njax.devices('tpu')\n")


@pytest.mark.parametrize("gpu", ["a100-sxm-40", "v100-sxm2"])
def test_the_guide_to_mixed_precision_is_judged_with_its_units_for_a_gpu(tmp_path: Path, gpu: str) -> None:
    file = tmp_path / "guide.py"
    file.write_text(GUIDE)
    for mode in ("source", "traced"):
        options = ("--mode", mode, "--target-gpu", gpu, "--format", "json")
        done = warm.run_tcprobe("audit-shapes", file, *options, TCPROBE_PYTHON=warm.python())
        assert done.returncode == 1, done.stderr
        (audited,) = json.loads(done.stdout)["audited"]
        found: list[dict[str, Any]] = audited["findings"]
        costly = [f["layer"] for f in found if f["code"] == "TC101" and f["saving_ns"]["mid"] > 0 and f["size"] == 4090]
        assert {name.rpartition("/")[2] for name in costly} == {"dense_1", "dense_2"}, mode
        assert [f["layer"].rpartition("/")[2] for f in found if f["code"] == "TC201"] == ["predictions"], mode
        assert audited["gpu_asked"][0]["call"] == "tensorflow.config.list_physical_devices"
        assert audited["gpu_asked"][0]["place"]["line"] == 6
        assert any("where the code asks for a GPU" in note for note in audited["notes"])


def test_both_modes_follow_the_same_way(tmp_path: Path) -> None:
    wrapper = "def has_gpu():\n    return len(tf.config.list_physical_devices('GPU')) > 0\n"
    text = f"{HEAD}{wrapper}units = 4090 if has_gpu() else 64\n{MODEL}"
    model = traced(tmp_path, text)
    (read,) = read_model(read_source(tmp_path / "model.py"))
    assert model.layers[-1].config["units"] == read.layers[-1].config["units"] == 4090
    asked = [[(a.call, a.place and a.place.line) for a in m.gpu_asked] for m in (model, read)]
    assert asked[0] == asked[1] == [("tensorflow.config.list_physical_devices", 4)]
