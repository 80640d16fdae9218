"""A loop of `train_on_batch`, with `test_on_batch` now and then."""
#: bench only

import numpy as np
import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers
model = keras.Sequential(
    [
        keras.Input((16,)),
        layers.Dense(32, activation="relu"),  #: sequential/dense 32x16x32: forward, wgrad
        layers.Dense(4),  #: sequential/dense_1 32x32x4: forward, dgrad, wgrad
    ]
)
model.compile("sgd", "mse")
rng = np.random.RandomState(0)
x, y = rng.rand(32, 16).astype("float32"), rng.rand(32, 4).astype("float32")
steps = 0
for step in range(36):
    model.train_on_batch(x, y)
    steps += 1
    if step % 10 == 9:
        model.test_on_batch(x, y)
print("steps", steps)
