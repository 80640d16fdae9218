"""Features that are taken apart by slices, as in gated units and coupling layers."""

import keras
from keras import layers


def gated(x, units):
    both = layers.Dense(2 * units)(x)  # 2 x 4084: a multiple of 8
    return both[:, :units] * keras.ops.sigmoid(both[:, units:])


def build():
    inputs = keras.Input((4096,))
    x = gated(inputs, 4084)
    x = layers.Dense(4095)(x)  # expect: TC101 units 4095 -> 4096
    return keras.Model(inputs, layers.Dense(2048)(x))
