"""A language model of recurrent layers; one of them cannot use cuDNN."""

import keras

inputs = keras.Input((128, 256))
x = keras.layers.LSTM(512, return_sequences=True)(inputs)
x = keras.layers.LSTM(512, return_sequences=True, recurrent_dropout=0.2)(x)  # expect: TC107
x = keras.layers.GRU(512)(x)
model = keras.Model(inputs, keras.layers.Dense(32)(x))
