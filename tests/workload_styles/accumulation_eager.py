"""Gradients of three batches are summed eagerly, then applied."""

import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers
model = keras.Sequential(
    [
        keras.Input((16,)),
        layers.Dense(32, activation="relu", name="hidden"),  #: net/hidden 32x16x32: 3 forward, 3 wgrad
        layers.Dense(4, name="out"),  #: net/out 32x32x4: 3 forward, 3 dgrad, 3 wgrad
    ],
    name="net",
)
optimizer = keras.optimizers.SGD(0.01)
x, y = tf.random.normal((32, 16)), tf.random.normal((32, 4))
sums, steps = None, 0
for batch in range(3 * 34):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
    gradients = tape.gradient(loss, model.trainable_variables)
    sums = gradients if sums is None else [a + b for a, b in zip(sums, gradients)]
    if batch % 3 == 2:
        optimizer.apply_gradients(zip(sums, model.trainable_variables))
        sums = None
        steps += 1
print("steps", steps)
