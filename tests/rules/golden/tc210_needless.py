"""A wrapper that bfloat16 does not need; one behind a condition is left alone."""

import sys

from tensorflow import keras

keras.mixed_precision.set_global_policy("mixed_bfloat16")
optimizer = keras.mixed_precision.LossScaleOptimizer(keras.optimizers.Adam())
other = keras.optimizers.SGD()
if "--scale" in sys.argv:
    other = keras.mixed_precision.LossScaleOptimizer(other)
