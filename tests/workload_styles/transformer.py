"""A block of a transformer, with Keras' MultiHeadAttention, in a subclassed layer."""
#: bench only

import numpy as np
import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers


class Block(layers.Layer):
    def __init__(self, **options):
        super().__init__(**options)
        # batch 8, 6 words, 16 features, 2 heads of 8; the projections have 48 rows
        #: text/block/attention/query 48x16x16: forward, dgrad, wgrad
        #: text/block/attention/key 48x16x16: forward, dgrad, wgrad
        #: text/block/attention/value 48x16x16: forward, dgrad, wgrad
        #: text/block/attention/attention_output 48x16x16: forward, dgrad, wgrad
        # of scores (queries by keys) and of what they weigh (scores by values) both operands are activations
        #: text/block/attention 8x2x6x6x8: 2 forward, 4 dgrad
        #: text/block/attention/softmax: nothing
        #: text/block/attention/dropout: nothing
        self.attention = layers.MultiHeadAttention(2, 8, name="attention")
        #: text/block/first 48x16x32: forward, dgrad, wgrad
        self.first = layers.Dense(32, activation="relu", name="first")
        self.second = layers.Dense(16, name="second")  #: text/block/second 48x32x16: forward, dgrad, wgrad
        self.norm = layers.LayerNormalization(name="norm")  #: text/block/norm: nothing
        self.norm_b = layers.LayerNormalization(name="norm_b")  #: text/block/norm_b: nothing

    def call(self, inputs):
        h = self.norm(inputs + self.attention(inputs, inputs))
        return self.norm_b(h + self.second(self.first(h)))


inputs = keras.Input((6,), dtype="int32")
h = layers.Embedding(40, 16, name="words")(inputs)  #: text/words: nothing
h = Block(name="block")(h)
h = layers.GlobalAveragePooling1D(name="mean")(h)  #: text/mean: nothing
outputs = layers.Dense(2, name="classes")(h)  #: text/classes 8x16x2: forward, dgrad, wgrad
model = keras.Model(inputs, outputs, name="text")
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
rng = np.random.RandomState(0)
x, y = rng.randint(0, 40, (144, 6)), rng.randint(0, 2, 144)
model.fit(x, y, batch_size=8, epochs=2, verbose=0)
print("steps", int(model.optimizer.iterations.numpy()))
