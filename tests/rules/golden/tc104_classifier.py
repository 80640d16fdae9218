"""A small classifier of colour images: three channels, ten classes, both left alone."""

import keras
from keras import layers

keras.config.set_dtype_policy("mixed_float16")
model = keras.Sequential(
    [
        keras.Input((32, 32, 3), batch_size=512),
        layers.Conv2D(64, 3, activation="relu"),
        layers.MaxPooling2D(),
        layers.Conv2D(64, 3, activation="relu"),
        layers.Flatten(),
        layers.Dense(64, activation="relu"),
        layers.Dense(10),
        layers.Activation("softmax", dtype="float32"),
    ]
)
