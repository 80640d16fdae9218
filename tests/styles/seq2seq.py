"""An encoder and a decoder of recurrent layers: the states of the one start the other."""

import numpy as np
import tensorflow as tf
from tensorflow.keras import layers

SOURCE_WORDS = 16000
TARGET_WORDS = 12003
EMBEDDING = 256
UNITS = 510
ATTENTION = 512
BATCH = 64
LENGTH = 32


class Encoder(layers.Layer):
    def __init__(self, vocabulary, units):
        super().__init__()
        self.embedding = layers.Embedding(vocabulary, EMBEDDING)
        self.rnn = layers.GRU(units, return_sequences=True, return_state=True)  # expect: TC101 units 510 -> 512

    def call(self, x):
        return self.rnn(self.embedding(x))


class Decoder(layers.Layer):
    def __init__(self, vocabulary, units):
        super().__init__()
        self.embedding = layers.Embedding(vocabulary, EMBEDDING)
        self.rnn = layers.GRU(units, return_sequences=True, return_state=True)  # expect: TC101 units 510 -> 512
        self.attention = layers.Attention()
        self.combine = layers.Dense(ATTENTION, activation="tanh", use_bias=False)
        self.output_layer = layers.Dense(vocabulary)  # expect: TC105 units 12003 -> 12032

    def call(self, x, context, state=None):
        x, state = self.rnn(self.embedding(x), initial_state=state)
        found = self.attention([x, context])
        x = self.combine(tf.concat([x, found], axis=-1))
        return self.output_layer(x), state


class Translator(tf.keras.Model):
    def __init__(self, units=UNITS):
        super().__init__()
        self.encoder = Encoder(SOURCE_WORDS, units)
        self.decoder = Decoder(TARGET_WORDS, units)

    def call(self, inputs):
        source, target = inputs
        context, state = self.encoder(source)
        logits, _ = self.decoder(target, context, state)
        return logits


def masked_loss(y_true, y_pred):
    loss_fn = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")
    loss = loss_fn(y_true, y_pred)
    mask = tf.cast(y_true != 0, loss.dtype)
    return tf.reduce_sum(loss * mask) / tf.reduce_sum(mask)


def make_dataset(samples):
    rng = np.random.default_rng(1)
    source = rng.integers(1, SOURCE_WORDS, (samples, LENGTH)).astype("int32")
    target = rng.integers(1, TARGET_WORDS, (samples, LENGTH + 1)).astype("int32")
    pairs = tf.data.Dataset.from_tensor_slices(((source, target[:, :-1]), target[:, 1:]))
    return pairs.shuffle(samples).batch(BATCH, drop_remainder=True)


def main():
    model = Translator()
    model.compile(optimizer="adam", loss=masked_loss)
    model.fit(make_dataset(1024), epochs=3)
    print(model.summary())


if __name__ == "__main__":
    main()
