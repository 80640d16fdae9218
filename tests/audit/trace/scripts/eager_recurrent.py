# ruff: noqa
"""An eager loop, which builds its model: on a CPU the recurrent layer runs step by step."""

import keras
import tensorflow as tf

model = keras.Sequential([keras.layers.LSTM(250), keras.layers.Dense(40)])
optimizer = keras.optimizers.Adam()
for _ in range(3):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(model(tf.zeros((100, 20, 24))))
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
