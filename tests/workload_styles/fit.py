"""`fit` of two Dense layers."""

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
x, y = rng.rand(640, 16).astype("float32"), rng.rand(640, 4).astype("float32")
model.fit(x, y, batch_size=32, epochs=2, verbose=0)
print("steps", int(model.optimizer.iterations.numpy()))
