"""A small GPT in mixed precision: tokens and positions, a mask made by hand, feed-forward blocks, a head."""

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

keras.mixed_precision.set_global_policy("mixed_float16")

vocab_size = 5003
max_len = 128
embed_dim = 250
num_heads = 2
feed_forward_dim = 1002
batch_size = 128


def causal_attention_mask(batch, n_dest, n_src, dtype):
    """Hide the future: 1 in the lower triangle, counted from the lower right corner."""
    i = tf.range(n_dest)[:, None]
    j = tf.range(n_src)
    m = i >= j - n_src + n_dest
    mask = tf.reshape(tf.cast(m, dtype), [1, n_dest, n_src])
    mult = tf.concat([tf.expand_dims(batch, -1), tf.constant([1, 1], dtype=tf.int32)], 0)
    return tf.tile(mask, mult)


class TransformerBlock(layers.Layer):
    def __init__(self, embed_dim, num_heads, ff_dim, rate=0.1):
        super().__init__()
        self.att = layers.MultiHeadAttention(num_heads, embed_dim)  # expect: TC106
        self.ffn = keras.Sequential(
            [
                layers.Dense(ff_dim, activation="relu"),  # expect: TC101 units 1002 -> 1008
                layers.Dense(embed_dim),  # expect: TC101 units 250 -> 256
            ]
        )
        self.layernorm1 = layers.LayerNormalization(epsilon=1e-6)
        self.layernorm2 = layers.LayerNormalization(epsilon=1e-6)
        self.dropout1 = layers.Dropout(rate)
        self.dropout2 = layers.Dropout(rate)

    def call(self, inputs):
        input_shape = tf.shape(inputs)
        batch, seq_len = input_shape[0], input_shape[1]
        causal_mask = causal_attention_mask(batch, seq_len, seq_len, tf.bool)
        attention_output = self.att(inputs, inputs, attention_mask=causal_mask)
        out1 = self.layernorm1(inputs + self.dropout1(attention_output))
        ffn_output = self.dropout2(self.ffn(out1))
        return self.layernorm2(out1 + ffn_output)


class TokenAndPositionEmbedding(layers.Layer):
    def __init__(self, maxlen, vocab_size, embed_dim):
        super().__init__()
        self.token_emb = layers.Embedding(vocab_size, embed_dim)  # expect: TC101 output_dim 250 -> 256
        self.pos_emb = layers.Embedding(maxlen, embed_dim)  # expect: TC101 output_dim 250 -> 256 (source)

    def call(self, x):
        maxlen = tf.shape(x)[-1]
        positions = self.pos_emb(tf.range(start=0, limit=maxlen, delta=1))
        return self.token_emb(x) + positions


def create_model(depth=2):
    inputs = layers.Input(shape=(max_len,), dtype="int32")
    x = TokenAndPositionEmbedding(max_len, vocab_size, embed_dim)(inputs)
    for _ in range(depth):
        x = TransformerBlock(embed_dim, num_heads, feed_forward_dim)(x)
    x = layers.Dense(vocab_size)(x)  # expect: TC105 units 5003 -> 5008
    outputs = layers.Activation("linear", dtype="float32")(x)
    model = keras.Model(inputs=inputs, outputs=outputs)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss=loss, jit_compile=False)
    return model


model = create_model()

if __name__ == "__main__":
    rng = np.random.default_rng(0)
    text = rng.integers(0, vocab_size, (8 * batch_size, max_len + 1)).astype("int32")
    model.fit(text[:, :-1], text[:, 1:], batch_size=batch_size, epochs=1)
