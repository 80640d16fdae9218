"""Features that are taken apart by slices, as in gated units and coupling layers."""

import keras
from keras import layers


def gated(x, units):
    both = layers.Dense(2 * units)(x)  # 2 x 1020: a multiple of 8
    return both[:, :units] * keras.ops.sigmoid(both[:, units:])


def build():
    inputs = keras.Input((1024,))
    x = gated(inputs, 1020)
    x = layers.Dense(1023)(x)  # expect: TC101 units 1023 -> 1024
    return keras.Model(inputs, layers.Dense(512)(x))
