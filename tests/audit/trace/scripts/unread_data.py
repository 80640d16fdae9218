# ruff: noqa
"""A loop of its own over data that cannot be had."""

import keras
import tensorflow as tf

model = keras.Sequential([keras.layers.Input((64,)), keras.layers.Dense(31)])
for x in tf.data.Dataset.from_tensor_slices(load_data()).batch(40):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(model(x))
    tape.gradient(loss, model.trainable_variables)
late = keras.Sequential([keras.layers.Dense(24)])
late.predict(tf.zeros((1, 64)))
