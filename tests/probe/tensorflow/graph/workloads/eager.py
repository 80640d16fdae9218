"""Eager training without any tf.function."""

import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers
model = keras.Sequential(
    [
        keras.Input((8, 8, 1)),
        layers.Conv2D(4, 3, activation="relu"),
        layers.Flatten(),
        layers.Dense(16),
        layers.Dense(4),
    ]
)
optimizer = keras.optimizers.SGD(0.01)
x, y = tf.ones((8, 8, 8, 1)), tf.ones((8, 4))
for _ in range(8):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
