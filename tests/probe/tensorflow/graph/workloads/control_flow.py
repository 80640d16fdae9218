"""A loop and a branch inside the taped part, and with argument "dataset" a loop over a dataset inside the function."""

import sys

import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers
model = keras.Sequential([keras.Input((16,)), layers.Dense(32, activation="relu"), layers.Dense(4)])
optimizer = keras.optimizers.SGD(0.01)
weight = tf.Variable(tf.random.normal((16, 16)) * 0.1)
variables = [*model.trainable_variables, weight]
if hasattr(optimizer, "build"):
    optimizer.build(variables)


def train(x, y):
    with tf.GradientTape() as tape:
        h = x
        for _ in tf.range(3):
            h = tf.matmul(h, weight)
        if tf.reduce_sum(h) > 0.0:
            h = tf.matmul(h, weight)
        loss = tf.reduce_mean((model(h, training=True) - y) ** 2)
    optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
    return loss


@tf.function
def epoch(data):
    loss = 0.0
    for x, y in data:
        loss = train(x, y)
    return loss


x, y = tf.random.normal((64, 16)), tf.random.normal((64, 4))
if "dataset" in sys.argv:
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(8, drop_remainder=True)
    for _ in range(8):
        epoch(data)
else:
    step = tf.function(train)
    for _ in range(8):
        step(x, y)
