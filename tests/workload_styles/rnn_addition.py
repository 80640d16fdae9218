"""Keras' addition example: an LSTM reads seven characters, another writes four."""
#: bench only

import numpy as np
import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers
model = keras.Sequential(
    [
        keras.Input((7, 12)),
        # 7 characters, the data's gradient is dead
        #: sequential/reader/lstm_cell: nothing
        #: sequential/reader 7*16x12x64: forward, wgrad
        #: sequential/reader 7*16x16x64: forward, dgrad, wgrad
        layers.LSTM(16, name="reader"),
        layers.RepeatVector(4, name="repeat"),  #: sequential/repeat: nothing
        # 4 characters
        #: sequential/writer/lstm_cell: nothing
        #: sequential/writer 4*16x16x64: forward, dgrad, wgrad
        #: sequential/writer 4*16x16x64: forward, dgrad, wgrad
        layers.LSTM(16, return_sequences=True, name="writer"),
        # all four characters at once
        #: sequential/characters 64x16x12: forward, dgrad, wgrad
        layers.Dense(12, activation="softmax", name="characters"),
    ]
)
model.compile("adam", "categorical_crossentropy")
rng = np.random.RandomState(0)
x, y = (
    np.eye(12, dtype="float32")[rng.randint(0, 12, (288, 7))],
    np.eye(12, dtype="float32")[rng.randint(0, 12, (288, 4))],
)
model.fit(x, y, batch_size=16, epochs=2, validation_data=(x[:32], y[:32]), verbose=0)
print("steps", int(model.optimizer.iterations.numpy()))
