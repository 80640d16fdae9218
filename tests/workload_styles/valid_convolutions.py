"""Convolutions without padding, also with a stride and on an image that the filter fills.

A gradient multiplies as often as its forward pass: each weight with each output position.
"""
#: bench only

import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers
model = keras.Sequential(
    [
        keras.Input((20, 20, 1)),
        layers.Conv2D(8, 5, activation="relu", name="first"),  #: net/first 16x16x16x8x5x5x1: forward, wgrad
        layers.Conv2D(8, 3, strides=2, name="second"),  #: net/second 16x7x7x8x3x3x8: forward, dgrad, wgrad
        layers.Conv2D(8, 3, dilation_rate=1, name="third"),  #: net/third 16x5x5x8x3x3x8: forward, dgrad, wgrad
        layers.Conv2D(16, 5, name="last"),  #: net/last 16x1x1x16x5x5x8: forward, dgrad, wgrad
        layers.Flatten(name="flat"),  #: net/flat: nothing
        layers.Dense(4, name="out"),  #: net/out 16x16x4: forward, dgrad, wgrad
    ],
    name="net",
)
optimizer = keras.optimizers.SGD(0.01)
x, y = tf.random.normal((16, 20, 20, 1)), tf.random.normal((16, 4))


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))


steps = 0
for _ in range(36):
    train_step(x, y)
    steps += 1
print("steps", steps)
