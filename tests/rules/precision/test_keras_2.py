"""Files that take Keras 2 whatever is installed: nothing that is advised for Keras 3 is said of them."""

from __future__ import annotations

import pytest

from tcprobe.rules.precision.file import file_of
from tcprobe.rules.precision.policy import keras_major
from tests.rules.precision.builders import FILE, HEAD, found, message, said, subject

ALONE = "import tensorflow as tf\nimport tf_keras as keras\nfrom tf_keras import mixed_precision\n"
TOLD = 'import os\nos.environ["TF_USE_LEGACY_KERAS"] = "1"\n' + HEAD
GONE = (
    'keras.mixed_precision.experimental.set_policy("mixed_float16")\n'
    'policy = mixed_precision.Policy("mixed_float16", loss_scale="dynamic")\n'
    "loss = optimizer.get_scaled_loss(loss)\n"
    "gradients = optimizer.get_unscaled_gradients(gradients)\n"
)
LOOP = """mixed_precision.set_global_policy("mixed_float16")
with tf.GradientTape() as tape:
    loss = model(x)
gradients = tape.gradient(loss, model.trainable_variables)
optimizer.apply_gradients(zip(gradients, model.trainable_variables))
"""


@pytest.mark.parametrize(
    ("text", "alone"),
    [
        (ALONE, True),
        (TOLD, True),
        (TOLD.replace('["TF_USE_LEGACY_KERAS"] = "1"', '.setdefault("TF_USE_LEGACY_KERAS", "True")'), True),
        (TOLD.replace('"1"', '"0"'), False),
        (HEAD, False),
        (ALONE.replace("as keras", "as old") + "import keras\n", False),
        ("try:\n    import tf_keras as keras\nexcept ImportError:\n    from tensorflow import keras\n", True),
        (HEAD + "# pip install tf_keras\n", False),
    ],
)
def test_which_files_take_keras_2(text: str, alone: bool) -> None:
    given = subject(text, keras="3.15.1")
    assert file_of(given.sources[FILE]).keeps_keras_2 is alone
    assert keras_major(given, file_of(given.sources[FILE])) == (2 if alone else 3)


@pytest.mark.parametrize("keras", [None, "2.15.0", "3.15.1"])
@pytest.mark.parametrize("head", [ALONE, TOLD])
def test_nothing_is_gone_from_keras_2(head: str, keras: str | None) -> None:
    assert found("TC208", subject(head + GONE, keras=keras)) == []
    assert len(found("TC208", subject(HEAD + GONE, keras=keras))) == 4


def test_names_of_tf_keras_stand_beside_those_of_keras_3() -> None:
    text = (
        "import keras\nimport tf_keras\n"
        'tf_keras.mixed_precision.experimental.set_policy("mixed_float16")\n'
        'keras.mixed_precision.experimental.set_policy("mixed_float16")\n'
    )
    assert said("TC208", subject(text, keras="3.15.1")) == ["4 error"]


def test_a_loop_of_keras_2_is_told_the_names_of_keras_2() -> None:
    (old,) = found("TC202", subject(ALONE + LOOP))
    assert "differentiate its get_scaled_loss(loss), and apply get_unscaled_gradients" in message(old)
    (new,) = found("TC202", subject(HEAD + LOOP))
    assert message(new).endswith("differentiate its scale_loss(loss)")


def test_a_fixed_scale_of_keras_2_is_not_said_to_raise() -> None:
    text = "o = mixed_precision.LossScaleOptimizer(keras.optimizers.SGD(), dynamic=False)\n" + LOOP
    texts = [message(f) for head in (ALONE, HEAD) for f in found("TC203", subject(head + text))]
    assert ["Keras 3" in text for text in texts] == [False, True]
