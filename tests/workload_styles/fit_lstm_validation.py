"""`fit` of an LSTM, with validation: on Keras 2 the validation's function writes a counter of its own."""
#: bench only

import numpy as np
import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers
model = keras.Sequential(
    [
        keras.Input((10, 8)),
        # 10 time steps; each multiplies the input (32x8) and the state (32x16) by matrices of 4 * 16 columns.
        # The gradient of the data is dead, that of the state is not.
        #: sequential/lstm/lstm_cell: nothing
        #: sequential/lstm 10*32x8x64: forward, wgrad
        #: sequential/lstm 10*32x16x64: forward, dgrad, wgrad
        layers.LSTM(16),
        layers.Dense(4),  #: sequential/dense 32x16x4: forward, dgrad, wgrad
    ]
)
model.compile("sgd", "mse")
rng = np.random.RandomState(0)
x, y = rng.rand(320, 10, 8).astype("float32"), rng.rand(320, 4).astype("float32")
model.fit(x, y, batch_size=32, epochs=3, validation_data=(x[:128], y[:128]), verbose=0)
print("steps", int(model.optimizer.iterations.numpy()))
