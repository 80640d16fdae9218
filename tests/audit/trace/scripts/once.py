# ruff: noqa
"""Loops of one step each: eager ones with a test behind them, a function's, and a `fit`; then one of many steps."""

import tensorflow as tf

layers = tf.keras.layers


def make(units):
    return tf.keras.Sequential([tf.keras.Input((64,)), layers.Dense(units), layers.Dense(8)])


def stepper(model, samples):
    optimizer = tf.keras.optimizers.SGD()

    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(tf.ones((samples, 64)), training=True) ** 2)
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))

    return step


def train(step, times=1):
    for _ in range(times):
        step()


first, second, fitted, last = make(40), make(72), make(104), make(136)
train(stepper(first, 16))
tested = first(tf.ones((24, 64)))
train(stepper(second, 32))
tested = second(tf.ones((40, 64)))
train(tf.function(stepper(make(200), 48)))
fitted.compile("sgd", "mse")
fitted.fit(tf.ones((128, 64)), tf.ones((128, 8)), batch_size=64)
critic, generator = tf.function(stepper(last, 80)), tf.function(stepper(make(232), 80))
critic()
generator()
for _ in range(1000):
    critic()
    generator()
raise SystemExit("nobody comes here")
