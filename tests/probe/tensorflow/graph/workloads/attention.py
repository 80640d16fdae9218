"""Two transformer blocks with MultiHeadAttention inside a layer of the user's own."""

import numpy as np
import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers


class Block(layers.Layer):
    def __init__(self, **kwds):
        super().__init__(**kwds)
        self.attention = layers.MultiHeadAttention(2, 8)
        self.norm = layers.LayerNormalization()
        self.wide, self.narrow = layers.Dense(32, activation="relu"), layers.Dense(16)

    def call(self, x):
        x = self.norm(x + self.attention(x, x))
        return x + self.narrow(self.wide(x))


tokens = keras.Input((6,))
x = layers.Embedding(50, 16)(tokens)
for _ in range(2):
    x = Block()(x)
model = keras.Model(tokens, layers.Dense(2)(layers.GlobalAveragePooling1D()(x)))
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
data = np.random.RandomState(0).randint(0, 50, (64, 6))
model.fit(data, data[:, 0] % 2, batch_size=8, epochs=2, verbose=0)
