"""Translation with attention over the encoder's steps, written out; the decoder takes one token after another."""

import tensorflow as tf

VOCAB_IN, VOCAB_OUT, DIM, UNITS, BATCH, LENGTH = 8003, 9001, 250, 500, 64, 20


class Encoder(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.embedding = tf.keras.layers.Embedding(VOCAB_IN, DIM)
        self.gru = tf.keras.layers.GRU(UNITS, return_sequences=True, return_state=True)

    def call(self, x):
        output, state = self.gru(self.embedding(x))
        return output, state

    def first_state(self):
        return tf.zeros((BATCH, UNITS))


class Attention(tf.keras.layers.Layer):
    def __init__(self, units):
        super().__init__()
        self.w1 = tf.keras.layers.Dense(units)
        self.w2 = tf.keras.layers.Dense(units)
        self.v = tf.keras.layers.Dense(1)

    def call(self, query, values):
        wide = tf.expand_dims(query, 1)
        score = self.v(tf.nn.tanh(self.w1(wide) + self.w2(values)))
        weights = tf.nn.softmax(score, axis=1)
        return tf.reduce_sum(weights * values, axis=1), weights


class Decoder(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.embedding = tf.keras.layers.Embedding(VOCAB_OUT, DIM)
        self.gru = tf.keras.layers.GRU(UNITS, return_sequences=True, return_state=True)
        self.fc = tf.keras.layers.Dense(VOCAB_OUT)
        self.attention = Attention(UNITS)

    def call(self, x, hidden, encoded):
        context, weights = self.attention(hidden, encoded)
        x = self.embedding(x)
        x = tf.concat([tf.expand_dims(context, 1), x], axis=-1)
        output, state = self.gru(x)
        output = tf.reshape(output, (-1, output.shape[2]))
        return self.fc(output), state, weights


encoder, decoder = Encoder(), Decoder()
tokens = tf.random.uniform((BATCH, LENGTH), maxval=VOCAB_IN, dtype=tf.int32)
encoded, hidden = encoder(tokens)
logits, _, _ = decoder(tf.random.uniform((BATCH, 1), maxval=VOCAB_OUT, dtype=tf.int32), hidden, encoded)
