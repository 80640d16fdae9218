"""`fit` with five steps in a call: 22 batches an epoch leave a call of two steps, the last batch with 16 of 32 rows."""

import numpy as np
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
model.compile("sgd", "mse", steps_per_execution=5)
rng = np.random.RandomState(0)
x, y = rng.rand(21 * 32 + 16, 16).astype("float32"), rng.rand(21 * 32 + 16, 4).astype("float32")
model.fit(x, y, batch_size=32, epochs=6, verbose=0)
print("steps", int(model.optimizer.iterations.numpy()))
