"""The softmax of a mixed precision model in float16, inside the last Dense."""

import keras

keras.mixed_precision.set_global_policy("mixed_float16")

model = keras.Sequential(
    [
        keras.Input((1024,)),
        keras.layers.Dense(4096, activation="relu"),
        keras.layers.Dense(4096, activation="relu"),
        keras.layers.Dense(16, activation="softmax"),  # expect: TC201
    ]
)
