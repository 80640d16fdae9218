"""A layer that several tensors go through: all that it takes has one size, or nothing changes."""

from __future__ import annotations

import pytest

from tests.audit.fix.fixes.whole import whole

HEAD = "import keras\nfrom keras import layers\nx = keras.Input((4096,))\nz = keras.Input((10, 4096))\n"
END = "m = keras.Model([x, z], layers.Dense(4096)(y))\n"
STATE = "h = layers.Dense(4090)(x)\n"
REFUSED = {
    "its own output, and an input": "d = layers.Dense(4090)\ny = d(d(keras.Input((4090,))))\n",
    "its own output, rectified": "d = layers.Dense(4090)\ny = d(layers.ReLU()(d(keras.Input((4090,)))))\n",
    "its own output in a loop": "d = layers.Dense(4090)\ny = keras.Input((4090,))\nfor _ in range(3):\n    y = d(y)\n",
    "an input of the model": "d = layers.Dense(4096)\ni = keras.Input((4090,))\n"
    "y = layers.Add()([d(layers.Dense(4090)(x)), d(i)])\n",
    "initial state": STATE + "y = layers.GRU(4090)(z, initial_state=h)\n",
    "initial state in a list": STATE + "y = layers.GRU(4090)([z, h])\n",
    "initial states": STATE + "c = layers.Dense(4090)(x)\ny = layers.LSTM(4090)(z, initial_state=[h, c])\n",
    "initial state of zeros": "import tensorflow as tf\ny = layers.GRU(4090)(z, initial_state=tf.zeros((8, 4090)))\n",
    "states of another": "_, h, c = layers.LSTM(4090, return_state=True)(z)\n"
    "y = layers.LSTM(4090)(keras.Input((10, 4096)), initial_state=[h, c])\n",
}  # fmt: skip
TOGETHER = {
    "its own output": "d = layers.Dense(4090)\ny = d(layers.ReLU()(d(layers.Dense(4090)(x))))\n",
    "two branches": "d = layers.Dense(4096)\n"
    "y = layers.Add()([d(layers.Dense(4090)(x)), d(layers.Dense(4090)(keras.Input((4096,))))])\n",
}


@pytest.mark.parametrize("case", REFUSED)
def test_no_fix(case: str) -> None:
    text = HEAD + REFUSED[case] + END
    found = whole(text)
    assert any(f.size == 4090 for f in found.findings)
    assert found.mended == text


@pytest.mark.parametrize("case", TOGETHER)
def test_all_change_together_or_nothing(case: str) -> None:
    text = HEAD + TOGETHER[case] + END
    assert whole(text).mended in (text, text.replace("4090", "4096"))
