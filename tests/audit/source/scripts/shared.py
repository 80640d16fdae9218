"""A siamese pair that shares its layers, and an autoencoder of two models; a batch that fit gives."""

import keras
import numpy as np
from keras import layers

tower = keras.Sequential([keras.Input((30,)), layers.Dense(63, activation="tanh"), layers.Dense(20)], name="tower")
left, right = keras.Input((30,), name="left"), keras.Input((30,), name="right")
joined = layers.Concatenate()([tower(left), tower(right)])
pair = keras.Model([left, right], layers.Dense(1)(joined))
pair.compile("adam", "mse")

code = keras.Input((784,))
encoder = keras.Model(code, layers.Dense(31)(code), name="encoder")
latent = keras.Input((31,))
decoder = keras.Model(latent, layers.Dense(784)(latent), name="decoder")
autoencoder = keras.Model(code, decoder(encoder(code)), name="autoencoder")
if __name__ == "__main__":
    pair.fit([np.zeros((8, 30)), np.zeros((8, 30))], np.zeros((8, 1)), batch_size=100, verbose=0)
