# ruff: noqa
"""Data, a package and a file that cannot be had, each before a model or a `fit`."""

import tensorflow as tf
import a_package_that_nobody_has as data

layers = tf.keras.layers


def main():
    (x, y), _ = data.load()
    model = tf.keras.Sequential([tf.keras.Input((64,)), layers.Dense(250), layers.Dense(8)], name="inside")
    model.compile("adam", "mse")
    model.fit(x, y)


main()
files = tf.data.Dataset.from_tensor_slices(["nowhere"]).map(tf.io.read_file)
files = files.map(lambda text: (tf.ensure_shape(tf.io.decode_raw(text, tf.float32), [64]), 0.0)).batch(32)
outside = tf.keras.Sequential([tf.keras.layers.Dense(122), layers.Dense(8)])
outside.compile("adam", "mse")
outside.build((None, 64))
outside.fit(files)
