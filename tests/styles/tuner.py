"""Models that a search builds at once: the policy comes too late for them, and their softmax stays in float32."""

import keras
from keras import layers


class Search:
    def __init__(self, build):
        self.models = [build(size) for size in (512, 1024)]


def build(units):
    inputs = keras.Input((784,))
    x = layers.Dense(units, activation="relu")(inputs)
    return keras.Model(inputs, layers.Dense(10, activation="softmax")(x))


best = Search(build).models[-1]
best.compile(optimizer="adam", loss="sparse_categorical_crossentropy")
keras.mixed_precision.set_global_policy("mixed_float16")  # expect: TC205
