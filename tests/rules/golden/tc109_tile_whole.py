"""A batch of whole tiles."""

import keras
from keras import layers

keras.config.set_dtype_policy("mixed_float16")
model = keras.Sequential(
    [
        keras.Input((4096,), batch_size=256),
        layers.Dense(4096, activation="relu"),
        layers.Dense(4096, activation="relu"),
        layers.Dense(4096, dtype="float32"),
    ]
)
