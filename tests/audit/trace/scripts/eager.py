# ruff: noqa
"""An eager loop, and an exception behind its first step."""

import tensorflow as tf

tf.config.experimental.enable_tensor_float_32_execution(False)
model = tf.keras.Sequential([tf.keras.Input((33,)), tf.keras.layers.Dense(65, "relu"), tf.keras.layers.Dense(3)])
optimizer = tf.keras.optimizers.SGD()
for step in range(10):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(model(tf.zeros((24, 33)), training=True) ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    raise ValueError("no step but this")
