# ruff: noqa
"""Loops of the user's own, with and without tf.function, one after the other, and an endless one behind a `fit`."""

import sys
import time

import tensorflow as tf

layers = tf.keras.layers
data = tf.data.Dataset.from_tensor_slices((tf.zeros((256, 64)), tf.zeros((256, 8)))).batch(32)


def make(units):
    return tf.keras.Sequential([tf.keras.Input((64,)), layers.Dense(units), layers.Dense(8)])


def stepper(model):
    optimizer = tf.keras.optimizers.Adam()

    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        return loss

    return step


def train(step):
    for x, y in data:
        loss = step(x, y)
    return loss


def endless():
    model = make(40)
    model.compile("adam", "mse")
    model.fit(data)
    while True:
        try:
            time.sleep(0.1)
        except Exception:
            pass


def main():
    if "endless" in sys.argv:
        endless()
    step = tf.function(stepper(make(72)))
    for epoch in range(1000):
        for x, y in data:
            loss = step(x, y)
        print(float(loss))
    result = train(stepper(make(136)))
    print(float(result))
    model = make(264)
    model.compile("adam", "mse")
    for x, y in data:
        model.train_on_batch(x, y)


if __name__ == "__main__":
    main()
