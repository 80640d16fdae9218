"""A transformer of subclassed layers and models, called once on data."""

import tensorflow as tf
from tensorflow.keras import layers


class Block(layers.Layer):
    def __init__(self, width, heads, ratio=4, **kwargs):
        super().__init__(**kwargs)
        self.attention = layers.MultiHeadAttention(num_heads=heads, key_dim=width // heads)
        self.norm = layers.LayerNormalization(epsilon=1e-6)
        self.up = layers.Dense(ratio * width + 1, activation="gelu")
        self.down = layers.Dense(width)
        self.drop = layers.Dropout(0.1)

    def call(self, x, training=False):
        x = self.norm(x + self.drop(self.attention(x, x), training=training))
        return x + self.down(self.up(x))


class Encoder(tf.keras.Model):
    def __init__(self, vocabulary=50257, width=96, heads=6, depth=2):
        super().__init__()
        self.width = width
        self.embed = layers.Embedding(vocabulary, self.width)
        self.blocks = [Block(width, heads) for _ in range(depth)]
        self.head = layers.Dense(vocabulary, name="head")

    def call(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


model = Encoder()
model(tf.zeros((2, 16), tf.int32))
