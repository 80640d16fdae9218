"""Residual blocks: every branch of a sum has the same filters."""

from tensorflow import keras
from tensorflow.keras import layers

FILTERS = 120


def residual(x, filters, name):
    shortcut = x
    x = layers.Conv2D(filters, 3, padding="same", name=name + "_a")(x)
    x = layers.BatchNormalization()(x)
    x = layers.Activation("relu")(x)
    x = layers.Conv2D(filters, 3, padding="same", name=name + "_b")(x)
    return layers.Add()([shortcut, x])


def make_model():
    image = keras.Input((56, 56, 64))
    x = layers.Conv2D(FILTERS, 1, name="stem")(image)
    for number in range(3):
        x = residual(x, FILTERS, f"block{number}")
    x = layers.Conv2D(250, 3, padding="same", name="last")(x)  # expect: TC101 filters 250 -> 256
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(image, layers.Dense(8)(x))
