"""A batch that is no multiple of 8; the same model with one that is would say nothing."""

import keras
from keras import layers

model = keras.Sequential([keras.Input((64,), batch_size=4090), layers.Dense(64), layers.Dense(64)])
