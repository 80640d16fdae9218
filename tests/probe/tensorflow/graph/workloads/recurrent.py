"""An LSTM and a bidirectional GRU: loops, and on Keras 2 functions that are swapped at run time."""

import numpy as np
import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers
model = keras.Sequential(
    [
        keras.Input((5, 8)),
        layers.LSTM(16, return_sequences=True),
        layers.Bidirectional(layers.GRU(8)),
        layers.Dense(4),
    ]
)
model.compile("adam", "mse")
rng = np.random.RandomState(0)
x, y = rng.rand(64, 5, 8).astype("float32"), rng.rand(64, 4).astype("float32")
model.fit(x, y, batch_size=8, epochs=2, verbose=0)
