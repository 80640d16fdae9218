"""Masks and epsilons past float16's ends; those of Keras' own layers are safe."""

import tensorflow as tf
from tensorflow.keras import layers

tf.keras.mixed_precision.set_global_policy("mixed_float16")
EPSILON = 1e-8


class Attention(layers.Layer):
    def __init__(self, width):
        super().__init__()
        self.query = layers.Dense(width)
        self.key = layers.Dense(width)
        self.norm = layers.LayerNormalization(epsilon=1e-12)

    def call(self, x, mask=None):
        scores = tf.matmul(self.query(x), self.key(x), transpose_b=True)
        if mask is not None:
            scores += (1.0 - mask[:, None, :]) * -1e9
        return self.norm(tf.matmul(tf.nn.softmax(scores), x))


class Cosine(layers.Layer):
    def call(self, x):
        norm = tf.sqrt(tf.reduce_max(tf.abs(x), axis=-1, keepdims=True) + EPSILON)
        return x / (norm + 1e-6)


class Right(layers.Layer):
    def call(self, x, mask=None):
        scores = tf.cast(x, tf.float32) + (1.0 - tf.cast(mask, tf.float32)) * -1e9
        return tf.nn.softmax(scores + EPSILON)
