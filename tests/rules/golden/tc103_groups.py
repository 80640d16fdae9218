"""A block of a ResNeXt: 32 groups of 4 channels, beside 16 groups of 8, which are fine."""

import keras
from keras import layers

keras.config.set_dtype_policy("mixed_float16")

inputs = keras.Input((56, 56, 64), batch_size=256)
narrow = layers.Conv2D(128, 3, padding="same", groups=32, name="narrow")(layers.Conv2D(128, 1)(inputs))
wide = layers.Conv2D(128, 3, padding="same", groups=16, name="wide")(narrow)
model = keras.Model(inputs, layers.GlobalAveragePooling2D()(wide))
