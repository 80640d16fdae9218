"""A batch of 16384 through layers of 4096: every product fills the GPU."""

import keras
from keras import layers

model = keras.Sequential(
    [
        keras.Input((4096,), batch_size=16384),
        layers.Dense(4096, activation="relu"),
        layers.Dense(4096, activation="relu"),
    ]
)
