"""A comparison of two precisions: each model is built under its own policy."""

import tensorflow as tf
from tensorflow.keras import layers, mixed_precision


def build(units=2048):
    return tf.keras.Sequential([layers.Dense(units), layers.Activation("linear", dtype="float32")])


slow = build()
slow.compile("adam", "mse")
mixed_precision.set_global_policy("mixed_float16")
fast = build()
fast.compile("adam", "mse")
