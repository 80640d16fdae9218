"""Attention with heads of 25, and with heads of 32."""

import keras
from keras import layers

keras.config.set_dtype_policy("mixed_float16")

inputs = keras.Input((128, 256), batch_size=64)
x = layers.MultiHeadAttention(num_heads=10, key_dim=25, name="ragged")(inputs, inputs)
x = layers.LayerNormalization()(x)
x = layers.MultiHeadAttention(num_heads=8, key_dim=32, name="even")(x, x)
model = keras.Model(inputs, x)
