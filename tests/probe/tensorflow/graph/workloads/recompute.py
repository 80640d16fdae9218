"""recompute_grad, a custom gradient, and a gradient penalty (second order)."""

import tensorflow as tf

layers = tf.keras.layers
first, second, last = layers.Dense(32, activation="relu", name="first"), layers.Dense(32, name="second"), None
last = layers.Dense(4, name="last")
x, y = tf.random.normal((8, 16)), tf.random.normal((8, 4))
last(second(first(x)))
weight = tf.Variable(tf.random.normal((16, 16)) * 0.1)
variables = first.trainable_variables + second.trainable_variables + last.trainable_variables + [weight]


@tf.custom_gradient
def product(a, b):
    def grad(upstream):
        return tf.matmul(upstream, b, transpose_b=True), tf.matmul(a, upstream, transpose_a=True)

    return tf.matmul(a, b), grad


block = tf.recompute_grad(lambda value: second(first(value)))


@tf.function
def train_step(x, y):
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            inner.watch(x)
            prediction = last(second(first(x)))
        penalty = tf.reduce_mean(inner.gradient(prediction, x) ** 2)
        loss = tf.reduce_mean((last(block(product(x, weight))) - y) ** 2) + penalty
    for variable, gradient in zip(variables, outer.gradient(loss, variables)):
        variable.assign_sub(0.01 * gradient)
    return loss


for _ in range(8):
    train_step(x, y)
