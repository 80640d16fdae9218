# ruff: noqa
"""One critic with a gradient penalty, written in several ways."""

import sys
import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

kind, way = sys.argv[1], sys.argv[2]


def critic():
    if kind == "dense":
        body = [layers.Dense(96, activation="tanh"), layers.Dense(64, activation="tanh"), layers.Dense(16)]
        return keras.Sequential([keras.Input((48,)), *body])
    if kind == "sequence":
        body = [layers.Dense(96, activation="tanh"), layers.Flatten(), layers.Dense(16)]
        return keras.Sequential([keras.Input((5, 48)), *body])
    channels = 3 if kind == "colour" else 1
    body = [keras.Input((8, 8, channels)), layers.Conv2D(64, 3, strides=2, padding="same", activation="tanh")]
    if kind == "transposed":
        body.append(layers.Conv2DTranspose(24, 3, strides=2, padding="same", activation="tanh"))
    else:
        body.append(layers.Conv2D(128, 3, padding="same", activation="tanh"))
    return keras.Sequential([*body, layers.Flatten(), layers.Dense(16)])


net = critic()
opt = keras.optimizers.SGD(0.1)
shape = net.inputs[0].shape[1:]


def excess(g):
    norm = tf.sqrt(tf.reduce_sum(g * g, axis=list(range(1, len(shape) + 1))) + 1e-6)
    return tf.reduce_mean((norm - 1.0) ** 2)


def penalty(x, score):
    with tf.GradientTape() as tape:
        tape.watch(x)
        scores = score(x)
    return excess(tape.gradient(scores, x))


def judge(x):
    return net(x, training=True)


nested = tf.function(judge)


def step(x, score):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(judge(x)) + 10.0 * penalty(x, score)
    grads = tape.gradient(loss, net.trainable_variables)
    opt.apply_gradients(zip(grads, net.trainable_variables))


def step_without_tapes(x):
    loss = tf.reduce_mean(judge(x)) + 10.0 * excess(tf.gradients(judge(x), x)[0])
    grads = tf.gradients(loss, net.trainable_variables)
    opt.apply_gradients(zip(grads, net.trainable_variables))


opt.build(net.trainable_variables)
if way == "eager":
    run = lambda x: step(x, judge)
elif way == "gradients":
    run = tf.function(step_without_tapes)
else:
    run = tf.function(lambda x: step(x, nested if way == "nested" else judge))

data = tf.data.Dataset.from_tensor_slices(np.random.rand(256, *shape).astype("float32")).batch(32, drop_remainder=True)
for epoch in range(2):
    for batch in data:
        run(batch)
