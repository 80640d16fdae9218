# ruff: noqa
"""A ready-made model whose weights cannot be had, with a head of the user's own."""

import os
import tempfile

home = tempfile.TemporaryDirectory()
os.environ.update(https_proxy="http://127.0.0.1:9", KERAS_HOME=home.name)

import keras
import numpy as np
from keras.applications import MobileNetV2

back = MobileNetV2(input_shape=(96, 96, 3), include_top=False, weights="imagenet")
back.trainable = False
x = keras.layers.GlobalAveragePooling2D()(back.output)
model = keras.Model(back.input, keras.layers.Dense(250)(x))
model.compile("adam", "mse")
model.fit(np.zeros((96, 96, 96, 3), "float32"), np.zeros((96, 250), "float32"), batch_size=24)
