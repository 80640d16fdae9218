"""A network built by the arrays that it is fitted on: no Input, no input_shape."""

import keras
import numpy as np
from keras import layers


def load():
    images = np.zeros((4096, 28, 28), "float32")
    return images.reshape((4096, 28 * 28)).astype("float32") / 255, np.zeros((4096,), "int32")


def make():
    return keras.Sequential(
        [
            layers.Dense(2044, activation="relu"),
            layers.Dense(2046, activation="relu"),  # expect: TC101 units 2046 -> 2048
            layers.Dense(10),
        ]
    )


images, labels = load()
model = make()
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(images, labels, batch_size=2048, epochs=1, verbose=0)
