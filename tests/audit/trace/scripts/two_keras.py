# ruff: noqa
"""A model that is told not to compile, then one of the Keras inside TensorFlow, which no longer trains everywhere."""

import keras
import numpy as np
from tensorflow.python.keras.layers import Dense
from tensorflow.python.keras.models import Sequential

compiled = {"jit_compile": False} if keras.__version__ >= "3" else {}
model = keras.Sequential([keras.layers.Dense(31), keras.layers.Dense(10)])
model.compile("adam", "mse", **compiled)
model.fit(np.zeros((192, 64), "float32"), np.zeros((192, 10), "float32"), batch_size=96)
private = Sequential()
private.add(Dense(62, input_dim=64))
private.add(Dense(7))
private.compile("adam", "mse")
private.fit(np.zeros((192, 64), "float32"), np.zeros((192, 7), "float32"), batch_size=48)
