"""Sums and norms of float16 activations; what is cast, or is keras.ops.mean, is safe."""

import tensorflow as tf
from tensorflow import keras

keras.mixed_precision.set_global_policy("mixed_float16")


class Normalise(keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.project = keras.layers.Dense(256)

    def call(self, x):
        hidden = self.project(x)
        self.add_loss(1e-3 * tf.reduce_sum(tf.square(hidden)))
        pooled = tf.reduce_mean(hidden, axis=1)
        return pooled / (tf.norm(pooled, axis=-1, keepdims=True) + 1e-3)


class Right(keras.layers.Layer):
    def call(self, x):
        self.add_loss(1e-3 * tf.reduce_sum(tf.square(tf.cast(x, tf.float32))))
        return keras.ops.mean(x, axis=1)
