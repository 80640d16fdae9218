"""Text: embedding, recurrent layers, wrappers; sizes in a data class."""

from dataclasses import dataclass

import keras
from keras import layers


@dataclass
class Sizes:
    vocabulary: int = 10_001
    width: int = 100
    units: int = 63
    steps: int = 40


sizes = Sizes(units=65)
model = keras.Sequential(
    [
        keras.Input((sizes.steps,), dtype="int32"),
        layers.Embedding(sizes.vocabulary, sizes.width),
        layers.Bidirectional(layers.LSTM(sizes.units, return_sequences=True)),
        layers.TimeDistributed(layers.Dense(33)),
        layers.GRU(48),
        layers.Dense(sizes.vocabulary, name="vocabulary"),
    ],
    name="text",
)
