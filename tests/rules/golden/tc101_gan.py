"""A generator with sizes that are no multiples of 8."""

import tensorflow as tf
from tensorflow.keras import layers

tf.keras.mixed_precision.set_global_policy("mixed_float16")
DEPTH = 63


def build_generator():
    return tf.keras.Sequential(
        [
            tf.keras.Input((100,), batch_size=4090),
            layers.Dense(7 * 7 * DEPTH),
            layers.Reshape((7, 7, DEPTH)),
            layers.BatchNormalization(),
            layers.Conv2D(DEPTH, 5, padding="same", activation="tanh"),
            layers.UpSampling2D(2),
            layers.Conv2D(31, 5, padding="same", activation="tanh"),
            layers.UpSampling2D(2),
            layers.Conv2D(7, 5, padding="same", activation="tanh"),
            layers.Conv2D(1, 5, padding="same"),
            layers.Activation("sigmoid", dtype="float32"),
        ],
        name="generator",
    )
