"""A small language model with the vocabulary of GPT-2."""

import keras
from keras import layers

keras.config.set_dtype_policy("mixed_bfloat16")
VOCABULARY = 50257

tokens = keras.Input((256,), batch_size=16, dtype="int32")
x = layers.Embedding(VOCABULARY, 256, name="words")(tokens)
x = layers.Dense(1024, activation="gelu")(x)
x = layers.Dense(256)(x)
logits = layers.Dense(VOCABULARY, name="logits")(x)
model = keras.Model(tokens, layers.Activation("softmax", dtype="float32")(logits))
