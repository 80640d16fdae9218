"""A multilayer perceptron whose sizes stand in a list."""

import keras

WIDTHS = [2048, 2050, 2046, 1024]

model = keras.Sequential([keras.Input((512,))])
for index, width in enumerate(WIDTHS):
    model.add(
        keras.layers.Dense(width, activation="gelu", name=f"hidden_{index}")
    )  # expect: TC101 units 2050 -> 2056, TC101 units 2046 -> 2048
    model.add(keras.layers.Dropout(0.1))
model.add(keras.layers.Dense(16))
