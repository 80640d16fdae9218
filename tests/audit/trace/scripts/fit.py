# ruff: noqa
"""An import that trains: batches of 96 of 1,000 samples, so that the last one is smaller."""

import os
import sys

import keras
import numpy as np

model = keras.Sequential(
    [keras.layers.Conv2D(31, 3), keras.layers.Flatten(), keras.layers.Dense(10, activation="softmax")]
)
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(np.zeros((1000, 28, 28, 1), "float32"), np.zeros((1000,), "int32"), batch_size=96, epochs=3)
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "trained"), "w") as file:
    file.write("this must never exist")
sys.exit(9)
