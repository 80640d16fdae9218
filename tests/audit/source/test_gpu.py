"""Source mode where code asks for a GPU: it is followed as on a machine with one, unless the file hides it."""

from __future__ import annotations

import pytest

from tcprobe.audit.source.read import parse_source, read_model, read_source
from tcprobe.schema.model import GpuAsked, Model, Place

HEAD = "import os\nimport tensorflow as tf\nimport torch, jax\n"
END = "tf.keras.layers.Dense(units)(tf.keras.Input((8,)))\n"
LISTED = "tf.config.list_physical_devices('GPU')"
ASKS = (
    LISTED,
    "tf.config.experimental.list_physical_devices('GPU')",
    "tf.config.list_physical_devices(device_type='GPU')",
    "tf.config.list_logical_devices('GPU')",
    "tf.config.experimental.list_logical_devices('GPU')",
    "tf.config.get_visible_devices('GPU')",
    "tf.compat.v1.config.list_physical_devices('GPU')",
    f"len({LISTED}) > 0",
    f"len({LISTED}) == 1",
    f"bool({LISTED})",
    "tf.test.is_gpu_available()",
    "tf.compat.v1.test.is_gpu_available(cuda_only=True)",
    "tf.test.gpu_device_name()",
    "tf.test.gpu_device_name() == '/device:GPU:0'",
    "tf.test.is_built_with_cuda()",
    "torch.cuda.is_available()",
    "torch.cuda.device_count()",
    "jax.devices('gpu')",
    "jax.devices(backend='cuda')",
)


def read(text: str) -> Model:
    (model,) = read_model(parse_source(HEAD + text + END, "/model.py"))
    return model


def units(text: str) -> int | None:
    """Return the units of the layer that stands behind a text which sets them; None where they are not known."""
    (layer,) = read(text).layers
    found = layer.config.get("units")
    return None if found is ... else found


@pytest.mark.parametrize("asks", ASKS)
def test_a_condition_is_that_of_a_machine_with_a_gpu(asks: str) -> None:
    assert units(f"if {asks}:\n    units = 4090\nelse:\n    units = 64\n") == 4090
    assert units(f"if not {asks}:\n    units = 64\nelse:\n    units = 4090\n") == 4090
    assert units(f"units = 4090 if {asks} else 64\n") == 4090
    assert units(f"there = {asks}\nunits = 64\nif there and True:\n    units = 4090\n") == 4090
    assert units(f"def there():\n    return {asks}\nunits = 4090 if there() else 64\n") == 4090
    assert units(f"there = {asks}\nassert there, 'no GPU'\nunits = 4090\n") == 4090


def test_what_was_asked_is_part_of_the_model_once_for_each_call() -> None:
    twice = "if gpus() and len(gpus()) == 1 and tf.test.is_gpu_available():\n    units = 4090\n"
    text = f"def gpus():\n    return {LISTED}\nunits = 64\n{twice}"
    asked = read(text).gpu_asked
    assert [(a.call, a.place.line if a.place else 0) for a in asked] == [
        ("tensorflow.config.list_physical_devices", 5),
        ("tensorflow.test.is_gpu_available", 7),
    ]
    assert read("units = 64\n").gpu_asked == ()


def test_there_is_one_gpu_and_its_set_up_changes_nothing() -> None:
    loop = "    tf.config.experimental.set_memory_growth(gpu, True)\n    units = 4090\n"
    assert units(f"units = 64\nfor gpu in {LISTED}:\n{loop}") == 4090
    assert (
        units(f"gpus = {LISTED}\ntf.config.set_visible_devices(gpus[0], 'GPU')\nunits = 8 if len(gpus) > 1 else 4090\n")
        == 4090
    )
    assert units("s = tf.distribute.MirroredStrategy()\nunits = 4090 * s.num_replicas_in_sync\n") == 4090
    assert (
        units("s = tf.distribute.MirroredStrategy(['/gpu:0', '/gpu:1'])\nunits = 64 * s.num_replicas_in_sync\n") is None
    )


@pytest.mark.parametrize("hidden", ["''", "'-1'", "'-1,0'"])
def test_a_file_that_hides_the_gpu_has_none(hidden: str) -> None:
    text = f"os.environ['CUDA_VISIBLE_DEVICES'] = {hidden}\nunits = 4090 if {LISTED} else 64\n"
    assert units(text) == 64 and read(text).gpu_asked == () and read(text).gpu_hidden
    assert units(text.replace(LISTED, "tf.test.is_gpu_available()")) == 64
    assert units(text.replace(LISTED, "tf.test.gpu_device_name()")) == 64


def test_a_file_that_names_the_gpu_has_one() -> None:
    assert units(f"os.environ['CUDA_VISIBLE_DEVICES'] = '0'\nunits = 4090 if {LISTED} else 64\n") == 4090
    assert units(f"os.environ['CUDA_VISIBLE_DEVICES'] = input()\nunits = 4090 if {LISTED} else 64\n") == 4090


def test_a_gpu_that_tensorflow_does_not_see_is_there_all_the_same() -> None:
    hides = "tf.config.set_visible_devices([], 'GPU')\n"
    assert units(f"{hides}units = 4090 if {LISTED} else 64\n") == 4090
    assert units(f"{hides}units = 4090 if tf.config.list_logical_devices('GPU') else 64\n") == 64
    assert units(f"{hides}units = 4090 if tf.test.is_gpu_available() else 64\n") == 64
    assert units(f"tf.config.set_visible_devices([], 'TPU')\nunits = 4090 if {LISTED} else 64\n") == 4090


def test_a_gpu_that_is_hidden_under_a_condition_is_not_guessed_at() -> None:
    hides = "if input():\n    os.environ['CUDA_VISIBLE_DEVICES'] = '-1'\n"
    assert units(f"{hides}units = 4090 if {LISTED} else 64\n") is None
    shows = "if input():\n    os.environ['CUDA_VISIBLE_DEVICES'] = '0'\n"
    assert units(f"{shows}units = 4090 if {LISTED} else 64\n") == 4090
    assert not read(f"{hides}units = 8\n").gpu_hidden and not read(f"{shows}units = 8\n").gpu_hidden


def test_other_devices_are_not_guessed_at() -> None:
    assert units("units = 4090 if tf.config.list_physical_devices('TPU') else 64\n") is None
    assert units("units = 4090 if tf.config.list_physical_devices() else 64\n") is None
    assert units("units = 4090 if jax.devices() else 64\n") is None


def test_a_batch_of_the_branch_is_that_of_the_step() -> None:
    model = read(
        f"units = 4090\nbatch = 64\nif {LISTED}:\n    batch = 4096\n{END}tf.keras.Model().fit(x, y, batch_size=batch)\n"
    )
    assert (model.batch, model.batch_known) == (4096, True)


def test_a_question_in_another_file_stands_there(tmp_path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "machine.py").write_text(f"import tensorflow as tf\ndef has_gpu():\n    return len({LISTED}) > 0\n")
    main = tmp_path / "main.py"
    main.write_text(f"import tensorflow as tf\nfrom machine import has_gpu\nunits = 4090 if has_gpu() else 64\n{END}")
    (model,) = read_model(read_source(main, str(tmp_path)))
    assert model.layers[0].config["units"] == 4090
    (asked,) = model.gpu_asked
    assert isinstance(asked, GpuAsked) and isinstance(asked.place, Place)
    assert (asked.place.file, asked.place.line) == (str(tmp_path / "machine.py"), 3)
