"""Two bidirectional LSTMs over words, as in Keras' example of sentiment: loops of 20 time steps."""
#: bench only

import numpy as np
import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers
inputs = keras.Input((None,), dtype="int32")
h = layers.Embedding(50, 8, name="words")(inputs)  #: sentiment/words: nothing
# Each of 20 time steps in each direction multiplies the input and the state by matrices of 4 * 8 columns; the
# embedding is trained, so the gradient of the input is needed.
#: sentiment/both/forward_words/lstm_cell: nothing
#: sentiment/both/backward_words/lstm_cell: nothing
#: sentiment/both 2*20*16x8x32: forward, dgrad, wgrad
#: sentiment/both 2*20*16x8x32: forward, dgrad, wgrad
h = layers.Bidirectional(layers.LSTM(8, return_sequences=True, name="words"), name="both")(h)
# the second one's input has 16 features
#: sentiment/both_b/forward_line/lstm_cell: nothing
#: sentiment/both_b/backward_line/lstm_cell: nothing
#: sentiment/both_b 2*20*16x16x32: forward, dgrad, wgrad
#: sentiment/both_b 2*20*16x8x32: forward, dgrad, wgrad
h = layers.Bidirectional(layers.LSTM(8, name="line"), name="both_b")(h)
outputs = layers.Dense(1, activation="sigmoid", name="good")(h)  #: sentiment/good 16x16x1: forward, dgrad, wgrad
model = keras.Model(inputs, outputs, name="sentiment")
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
rng = np.random.RandomState(0)
x, y = rng.randint(0, 50, (288, 20)), rng.randint(0, 2, (288, 1))
model.fit(x, y, batch_size=16, epochs=2, verbose=0)
print("steps", int(model.optimizer.iterations.numpy()))
