"""An LSTM that cuDNN cannot run (`recurrent_dropout`), then a GRU that it could."""
#: bench only

import numpy as np
import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers
model = keras.Sequential(
    [
        keras.Input((6, 8)),
        # With that dropout Keras makes the products of the four gates one by one, 12 columns each; the data's gradient
        # is dead.
        #: sequential/lstm/lstm_cell: nothing
        #: sequential/lstm 6*16x8x12: 4 forward, 4 wgrad
        #: sequential/lstm 6*16x12x12: 4 forward, 4 dgrad, 4 wgrad
        layers.LSTM(12, recurrent_dropout=0.2, return_sequences=True),
        # 3 * 8 columns
        #: sequential/gru/gru_cell: nothing
        #: sequential/gru 6*16x12x24: forward, dgrad, wgrad
        #: sequential/gru 6*16x8x24: forward, dgrad, wgrad
        layers.GRU(8),
        layers.Dense(4),  #: sequential/dense 16x8x4: forward, dgrad, wgrad
    ]
)
model.compile("adam", "mse")
rng = np.random.RandomState(0)
x, y = rng.rand(288, 6, 8).astype("float32"), rng.rand(288, 4).astype("float32")
model.fit(x, y, batch_size=16, epochs=2, verbose=0)
print("steps", int(model.optimizer.iterations.numpy()))
