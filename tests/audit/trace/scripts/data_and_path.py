# ruff: noqa
"""A data set of Keras' that is not there, and a module in a folder that the script adds, relative to its own."""

import sys

sys.path.append("./beside")

import keras
import numpy as np
from keras.datasets import mnist
from of_the_path import units

(x, y), (x_test, y_test) = mnist.load_data()
classes = len(np.unique(y))
model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(units), keras.layers.Dense(classes)])
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(x / 255.0, y, batch_size=96, validation_data=(x_test, y_test))
