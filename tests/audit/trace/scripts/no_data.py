# ruff: noqa
"""Data that cannot be had, for a `fit`; then a package, before another `fit`."""

import tensorflow as tf

layers = tf.keras.layers


def fit(model):
    import a_package_that_nobody_has as data

    model.fit(*data.load())


def main():
    inside = tf.keras.Sequential([tf.keras.Input((64,)), layers.Dense(250), layers.Dense(8)], name="inside")
    inside.compile("adam", "mse")
    part = tf.keras.Sequential([tf.keras.Input((64,)), layers.Dense(40)], name="part")
    fit(inside)
    part.add(layers.Dense(56))


files = tf.data.Dataset.from_tensor_slices(["nowhere"]).map(tf.io.read_file)
files = files.map(lambda text: (tf.ensure_shape(tf.io.decode_raw(text, tf.float32), [64]), 0.0)).batch(32)
outside = tf.keras.Sequential([tf.keras.layers.Dense(122), layers.Dense(8)])
outside.compile("adam", "mse")
outside.build((None, 64))
outside.fit(files)
main()
