"""A loop of one's own around a tf.function."""

import tensorflow as tf
from tensorflow.keras import layers as L
from tensorflow.keras.layers import Dense as D

BATCH = 2048
FEATURES = 1000
HIDDEN = 4100

net = tf.keras.Sequential(
    [
        tf.keras.Input((FEATURES,)),
        D(HIDDEN, activation="relu"),  # 4100 is a multiple of 4, which TF32 asks for
        L.LayerNormalization(),
        D(HIDDEN // 2, activation="relu"),  # expect: TC101 units 2050 -> 2048
        D(256),
    ]
)
optimizer = tf.keras.optimizers.SGD(0.1)


@tf.function
def step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((net(x, training=True) - y) ** 2)
    grads = tape.gradient(loss, net.trainable_variables)
    optimizer.apply_gradients(zip(grads, net.trainable_variables))
    return loss


for _ in range(1000):
    step(tf.random.normal((BATCH, FEATURES)), tf.random.normal((BATCH, 256)))
