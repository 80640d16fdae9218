"""float32 in a heavy layer and in a product; the last layer and a normalisation are right in it."""

import tensorflow as tf
from tensorflow.keras import layers

tf.keras.mixed_precision.set_global_policy("mixed_float16")

inputs = tf.keras.Input((1024,))
x = layers.Dense(4096, activation="relu", dtype="float32")(inputs)
x = layers.LayerNormalization(dtype="float32")(x)
x = layers.Dense(4096, activation="relu")(x)
gate = layers.Dense(8, dtype=tf.float32)(x)
x = layers.Concatenate()([x, gate])
outputs = layers.Dense(1000, dtype="float32")(x)
model = tf.keras.Model(inputs, outputs)


class Scores(layers.Layer):
    def call(self, query, key):
        query = tf.cast(query, tf.float32)
        return tf.matmul(query, tf.cast(key, tf.float32), transpose_b=True)


class Right(layers.Layer):
    def call(self, query, key):
        return tf.nn.softmax(tf.cast(tf.matmul(query, key, transpose_b=True), tf.float32))
