"""Attention in windows: pixels padded, cut into windows that stand in for samples, and put together again."""

import keras
import tensorflow as tf
from keras import layers

WINDOW = 7


def partition(x, size):
    _, height, width, channels = x.get_shape().as_list()
    x = tf.reshape(x, shape=(-1, height // size, size, width // size, size, channels))
    x = tf.transpose(x, (0, 1, 3, 2, 4, 5))
    return tf.reshape(x, shape=(-1, size, size, channels))


def reverse(windows, size, height, width, channels):
    x = tf.reshape(windows, shape=(-1, height // size, width // size, size, size, channels))
    x = tf.transpose(x, perm=(0, 1, 3, 2, 4, 5))
    return tf.reshape(x, shape=(-1, height, width, channels))


class WindowBlock(layers.Layer):
    def __init__(self, dim, shift, **kwargs):
        super().__init__(**kwargs)
        self.shift = shift
        self.inner = layers.Dense(2 * dim)
        self.outer = layers.Dense(dim)

    def call(self, x):
        height, width, channels = x.shape[1], x.shape[2], x.shape[3]
        if self.shift:
            x = tf.roll(x, shift=[-self.shift, -self.shift], axis=[1, 2])
        windows = partition(x, WINDOW)
        windows = tf.reshape(windows, shape=(-1, WINDOW * WINDOW, channels))
        windows = self.outer(self.inner(windows))
        return reverse(windows, WINDOW, height, width, channels)


inputs = keras.Input((26, 26, 3))
x = keras.ops.pad(inputs, [[0, 0], [1, 1], [1, 1], [0, 0]])
x = layers.Conv2D(48, 1)(x)
x = WindowBlock(48, 0)(x)
x = WindowBlock(48, 3)(x)
merged = keras.ops.concatenate([x[:, 0::2, 0::2, :], x[:, 1::2, 0::2], x[:, 0::2, 1::2, :], x[:, 1::2, 1::2]], axis=-1)
x = layers.Dense(90)(merged)
x = layers.Dense(10)(keras.ops.mean(x, axis=[1, 2]))
model = keras.Model(inputs, x)
