"""A loop of a function over a dataset whose last batch has 5 of 16 rows: a second trace with a free dimension."""

import numpy as np
import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers
model = keras.Sequential(
    [
        keras.Input((8, 8, 3)),
        #: net/conv 16x8x8x4x3x3x3: forward, wgrad
        layers.Conv2D(4, 3, padding="same", activation="relu", name="conv"),
        layers.Flatten(name="flat"),  #: net/flat: nothing
        layers.Dense(32, activation="relu", name="hidden"),  #: net/hidden 16x256x32: forward, dgrad, wgrad
        layers.Dense(4, name="out"),  #: net/out 16x32x4: forward, dgrad, wgrad
    ],
    name="net",
)
optimizer = keras.optimizers.SGD(0.01)
rng = np.random.RandomState(0)
x, y = rng.rand(14 * 16 + 5, 8, 8, 3).astype("float32"), rng.rand(14 * 16 + 5, 4).astype("float32")
dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(16)


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))


steps = 0
for _ in range(3):
    for batch in dataset:
        train_step(*batch)
        steps += 1
print("steps", steps)
