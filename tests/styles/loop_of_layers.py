"""A multilayer perceptron whose sizes stand in a list."""

import keras

WIDTHS = [2048, 2050, 2046, 1024]

model = keras.Sequential([keras.Input((512,))])
for width in WIDTHS:
    hidden = keras.layers.Dense(width, "gelu")  # expect: TC101 units 2050 -> 2048, TC101 units 2046 -> 2048
    model.add(hidden)
    model.add(keras.layers.Dropout(0.1))
model.add(keras.layers.Dense(16))
