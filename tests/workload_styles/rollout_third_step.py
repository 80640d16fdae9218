"""Reinforcement learning: before every third update the agent acts, which takes far longer than an update.

These are steps of two kinds, and no step holds an epoch's end.
"""
#: bench only

import time

import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers
model = keras.Sequential(
    [
        keras.Input((16,)),
        layers.Dense(32, activation="relu", name="hidden"),  #: net/hidden 32x16x32: forward, wgrad
        layers.Dense(4, name="out"),  #: net/out 32x32x4: forward, dgrad, wgrad
    ],
    name="net",
)
optimizer = keras.optimizers.SGD(0.01)
x, y = tf.random.normal((32, 16)), tf.random.normal((32, 4))


@tf.function
def learn(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))


def rollout():
    for _ in range(10):
        tf.argmax(tf.zeros((8, 4)), axis=1)
        time.sleep(0.002)


steps = 0
for _ in range(18):
    rollout()
    for _ in range(3):
        learn(x, y)
        steps += 1
print("steps", steps)
