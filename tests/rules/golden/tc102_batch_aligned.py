"""A batch that is a multiple of 8."""

import keras
from keras import layers

model = keras.Sequential([keras.Input((64,), batch_size=4096), layers.Dense(64), layers.Dense(64)])
