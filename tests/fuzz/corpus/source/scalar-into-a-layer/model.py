"""A small transformer with a vocabulary and heads of awkward sizes."""

import keras
from keras import layers, ops

VOCABULARY = 50257
SEQUENCE = 256
WIDTH = 768
HEADS = 12


class Block(layers.Layer):
    def __init__(self, width, heads, hidden, **kwargs):
        super().__init__(**kwargs)
        self.attention = layers.MultiHeadAttention(heads, key_dim=width // heads)
        self.norms = [layers.LayerNormalization(epsilon=1e-5) for _ in range(2)]
        self.up = layers.Dense(hidden, activation="gelu")  # expect: TC101 units 2731 -> 2736

    def call(self, x):
        x = x + self.attention(self.norms[0](x), self.norms[0](x), use_causal_mask=True)
        return x + self.down(self.up(self.norms[1](x)))


class Positions(layers.Layer):
    def __init__(self, width, **kwargs):
        super().__init__(**kwargs)
        self.table = layers.Embedding(SEQUENCE, width)

    def call(self, x):
        return x + self.table(ops.arange(SEQUENCE))


def build_transformer():
    tokens = keras.Input((SEQUENCE,), dtype="int32")
    x = layers.Embedding(VOCABULARY, WIDTH)(tokens)
    x = Positions(WIDTH)(x)
    for _ in range(2):
        x = Block(WIDTH, HEADS, 2731)(x)
    x = layers.LayerNormalization()(x)
    logits = layers.Dense(VOCABULARY, use_bias=False)(x)  # expect: TC105 units 50257 -> 50304
    return keras.Model(tokens, logits)
