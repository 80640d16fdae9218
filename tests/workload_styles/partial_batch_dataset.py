"""`fit` of a dataset whose last batch has 5 of 16 rows."""
#: bench only

import numpy as np
import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers
model = keras.Sequential(
    [
        keras.Input((8, 8, 3)),
        #: [shape 0] net/conv 16x8x8x4x3x3x3: forward, wgrad
        #: [shape 1] net/conv 5x8x8x4x3x3x3: forward, wgrad
        layers.Conv2D(4, 3, padding="same", activation="relu", name="conv"),
        layers.Flatten(name="flat"),  #: net/flat: nothing
        #: [shape 0] net/hidden 16x256x32: forward, dgrad, wgrad
        #: [shape 1] net/hidden 5x256x32: forward, dgrad, wgrad
        layers.Dense(32, activation="relu", name="hidden"),
        #: [shape 0] net/out 16x32x4: forward, dgrad, wgrad
        #: [shape 1] net/out 5x32x4: forward, dgrad, wgrad
        layers.Dense(4, name="out"),
    ],
    name="net",
)
model.compile("adam", "mse")
rng = np.random.RandomState(0)
x, y = rng.rand(14 * 16 + 5, 8, 8, 3).astype("float32"), rng.rand(14 * 16 + 5, 4).astype("float32")
dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(64).batch(16).prefetch(2)
model.fit(dataset, epochs=3, verbose=0)
print("shapes", *(int(step % 15 == 14) for step in range(45)))
print("steps", int(model.optimizer.iterations.numpy()))
