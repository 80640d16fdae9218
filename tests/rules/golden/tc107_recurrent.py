"""An LSTM that cuDNN cannot run, one that it can, and a GRU of the old kind."""

import keras
from keras import layers

model = keras.Sequential(
    [
        keras.Input((50, 64), batch_size=256),
        layers.LSTM(128, return_sequences=True, recurrent_dropout=0.2, name="slow"),
        layers.LSTM(128, return_sequences=True, dropout=0.2, name="fast"),
        layers.GRU(128, reset_after=False, activation="relu", name="old"),
        layers.Dense(8),
    ]
)
