"""The policy comes after the model."""

import tensorflow as tf
from tensorflow.keras import layers, mixed_precision


def build(units=2048):
    return tf.keras.Sequential([layers.Dense(units), layers.Activation("linear", dtype="float32")])


def main():
    model = build()
    mixed_precision.set_global_policy("mixed_float16")
    model.compile("adam", "mse")
    model.fit(tf.zeros((64, 32)), tf.zeros((64, 2048)))


if __name__ == "__main__":
    main()
