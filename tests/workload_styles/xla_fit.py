"""`fit` of a model compiled with `jit_compile=True`."""
#: bench only
#: cold
#: fails on 2.4

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
model.compile("adam", "mse", jit_compile=True)
rng = np.random.RandomState(0)
x, y = rng.rand(576, 16).astype("float32"), rng.rand(576, 4).astype("float32")
model.fit(x, y, batch_size=32, epochs=2, verbose=0)
print("steps", int(model.optimizer.iterations.numpy()))
