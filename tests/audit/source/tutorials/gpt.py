"""A small GPT: token and position embeddings, attention written out, the logits of every token."""

import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

VOCAB = 5003
MAXLEN = 80
DIM = 250
HEADS = 5


class CausalSelfAttention(layers.Layer):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = layers.Dense(3 * dim)
        self.out = layers.Dense(dim)

    def call(self, x):
        batch, length, dim = tf.shape(x)[0], x.shape[1], x.shape[-1]
        depth = dim // self.heads
        q, k, v = tf.split(self.qkv(x), 3, axis=-1)
        q = tf.transpose(tf.reshape(q, (batch, length, self.heads, depth)), (0, 2, 1, 3))
        k = tf.transpose(tf.reshape(k, (-1, length, self.heads, depth)), [0, 2, 1, 3])
        v = tf.transpose(tf.reshape(v, (batch, -1, self.heads, depth)), perm=[0, 2, 1, 3])
        scores = tf.matmul(q, k, transpose_b=True) / tf.sqrt(tf.cast(depth, tf.float32))
        mask = tf.linalg.band_part(tf.ones((length, length)), -1, 0)
        scores = scores * mask - 1e9 * (1 - mask)
        mixed = tf.matmul(tf.nn.softmax(scores, axis=-1), v)
        mixed = tf.reshape(tf.transpose(mixed, (0, 2, 1, 3)), tf.shape(x))
        return self.out(mixed)


class TokenAndPositionEmbedding(layers.Layer):
    def __init__(self, maxlen, vocab, dim):
        super().__init__()
        self.token = layers.Embedding(vocab, dim)
        self.position = layers.Embedding(maxlen, dim)

    def call(self, x):
        maxlen = tf.shape(x)[-1]
        positions = tf.range(start=0, limit=maxlen, delta=1)
        return self.token(x) + self.position(positions)


def block(x):
    x = x + CausalSelfAttention(DIM, HEADS)(layers.LayerNormalization()(x))
    return x + layers.Dense(DIM)(layers.Dense(4 * DIM, activation="gelu")(layers.LayerNormalization()(x)))


inputs = keras.Input((MAXLEN,), dtype="int32")
x = TokenAndPositionEmbedding(MAXLEN, VOCAB, DIM)(inputs)
for _ in range(2):
    x = block(x)
outputs = layers.Dense(VOCAB)(x)
model = keras.Model(inputs, outputs)
