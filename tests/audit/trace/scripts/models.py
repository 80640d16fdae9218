# ruff: noqa
"""Models in the styles that people write, found at module level; one that nobody has built."""

import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

sequential = keras.Sequential(
    [
        keras.Input((32,)),
        layers.Dense(63, activation="relu"),
        layers.Dropout(0.5),
        layers.Dense(10),
    ]
)


def block(x, filters):
    x = layers.Conv2D(filters, 3, padding="same", use_bias=False)(x)
    x = layers.BatchNormalization()(x)
    return layers.ReLU()(x)


image = keras.Input((32, 32, 3), batch_size=48)
stem = block(image, 30)
joined = layers.Add()([stem, block(stem, 30)])
pooled = layers.GlobalAveragePooling2D()(joined)
shared = layers.Dense(24, name="shared")
both = layers.Concatenate()([shared(pooled), shared(layers.Dense(30)(pooled))])
functional = keras.Model(image, {"classes": layers.Dense(10)(both), "score": layers.Dense(1)(both)}, name="functional")


class Block(layers.Layer):
    def __init__(self, units):
        super().__init__()
        self.wide = layers.Dense(4 * units, activation="gelu")
        self.narrow = layers.Dense(units)
        self.norm = layers.LayerNormalization()

    def call(self, x):
        return self.norm(x + self.narrow(self.wide(x)))


class Net(keras.Model):
    def __init__(self, depth):
        super().__init__()
        self.embed = layers.Embedding(1001, 40)
        self.attend = layers.MultiHeadAttention(4, 10)
        self.blocks = [Block(40) for _ in range(depth)]
        self.read = layers.LSTM(33)
        self.out = layers.Dense(7, dtype="float32")

    def call(self, tokens):
        x = self.embed(tokens)
        x = self.attend(x, x)
        for inner in self.blocks:
            x = inner(x)
        return self.out(self.read(x))


keras.mixed_precision.set_global_policy("mixed_float16")
called = Net(2)
called(tf.zeros((1, 12), tf.int32))
never = Net(1)
nested = keras.Sequential([keras.Input((8,)), keras.Sequential([layers.Dense(16)], name="inner"), layers.Dense(2)])
