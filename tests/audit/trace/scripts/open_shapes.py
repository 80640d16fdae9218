# ruff: noqa
"""Models that leave their inputs open, in three ways."""

import keras
from keras import layers


class Two(keras.Model):
    def __init__(self):
        super().__init__()
        self.left, self.right = layers.Dense(24), layers.Dense(40)

    def call(self, first, second, training=False):
        return self.left(first), self.right(second)


stacked = keras.Sequential([layers.Dense(56), layers.Dense(8)])
two = Two()
image = keras.Input((None, None, 3), name="image")
text = keras.Input((None,), name="text", dtype="int32")
joined = layers.Concatenate()(
    [
        layers.GlobalAveragePooling2D()(layers.Conv2D(16, 3)(image)),
        layers.GlobalAveragePooling1D()(layers.Dense(32)(layers.Embedding(1000, 48)(text))),
    ]
)
both = keras.Model([image, text], layers.Dense(8)(joined))
