"""Residual blocks as functions, a configuration in a dictionary, layers made by functools.partial."""

from functools import partial

import keras
from keras import layers

CONFIG = {"stages": [16, 31, 64], "dense": {"units": 63, "act": "relu"}, "classes": 10}
Conv = partial(layers.Conv2D, padding="same", use_bias=False)


def block(x, filters, stride=1):
    y = Conv(filters, 3, strides=stride)(x)
    y = layers.BatchNormalization()(y)
    y = layers.ReLU()(y)
    y = Conv(filters, 3)(y)
    if stride != 1 or x.shape[-1] != filters:
        x = Conv(filters, 1, strides=stride)(x)
    return layers.Add()([x, y])


def build(shape=(32, 32, 3), config=CONFIG):
    inputs = keras.Input(shape=shape)
    x = inputs
    for index, filters in enumerate(config["stages"]):
        x = block(x, filters, stride=1 if index == 0 else 2)
    x = layers.GlobalAveragePooling2D()(x)
    x = layers.Dense(config["dense"]["units"], activation=config["dense"]["act"])(x)
    return keras.Model(inputs, layers.Dense(config["classes"], dtype="float32")(x))


model = build()
model.compile("adam", "sparse_categorical_crossentropy", jit_compile=True)
