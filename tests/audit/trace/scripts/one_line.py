# ruff: noqa
"""Several layers of one class on one line."""

from tensorflow import keras
from tensorflow.keras import layers
from tensorflow.keras.layers import Dense

inputs = keras.Input((512,))
x = Dense(250)(Dense(251)(inputs))
for layer in [Dense(63), Dense(31)]:
    x = layer(x)
x = layers.Dense(1001)(layers.Dense(1003)(layers.Dense(1001)(x)))
model = keras.Model(inputs, x, name="model")
