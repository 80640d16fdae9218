"""`fit` with a callback that profiles all of it, as TensorBoard's does."""
#: bench only
#: said profiled itself

import tempfile

import numpy as np
import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers


class ProfileAll(keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        tf.profiler.experimental.start(tempfile.mkdtemp())

    def on_train_end(self, logs=None):
        tf.profiler.experimental.stop()


model = keras.Sequential(
    [
        keras.Input((16,)),
        layers.Dense(32, activation="relu", name="hidden"),  #: net/hidden 32x16x32: forward, wgrad
        layers.Dense(4, name="out"),  #: net/out 32x32x4: forward, dgrad, wgrad
    ],
    name="net",
)
model.compile("sgd", "mse")
rng = np.random.RandomState(0)
x, y = rng.rand(640, 16).astype("float32"), rng.rand(640, 4).astype("float32")
model.fit(x, y, batch_size=32, epochs=2, callbacks=[ProfileAll()], verbose=0)
print("steps", int(model.optimizer.iterations.numpy()))
