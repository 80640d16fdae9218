"""A batch of 16 through layers of 64: no product fills the GPU."""

import keras
from keras import layers

model = keras.Sequential(
    [keras.Input((64,), batch_size=16), layers.Dense(64, activation="relu"), layers.Dense(64, activation="relu")]
)
