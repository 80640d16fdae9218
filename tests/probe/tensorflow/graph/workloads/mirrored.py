"""MirroredStrategy on one device: fit, or with argument "loop" strategy.run inside a tf.function."""

import sys

import numpy as np
import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers
strategy = tf.distribute.MirroredStrategy(["CPU:0"])
with strategy.scope():
    model = keras.Sequential([keras.Input((16,)), layers.Dense(32, activation="relu"), layers.Dense(4)])
    optimizer = keras.optimizers.SGD(0.01)
    if hasattr(optimizer, "build"):
        optimizer.build(model.trainable_variables)
    model.compile(optimizer, "mse")
x, y = np.ones((64, 16), "float32"), np.ones((64, 4), "float32")


def one(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
    variables = model.trainable_variables
    optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
    return loss


@tf.function
def step(x, y):
    return strategy.reduce("MEAN", strategy.run(one, args=(x, y)), axis=None)


if "loop" in sys.argv:
    for _ in range(8):
        step(tf.constant(x), tf.constant(y))
else:
    model.fit(x, y, batch_size=8, epochs=2, verbose=0)
