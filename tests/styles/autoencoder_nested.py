"""Two models inside a third one; the decoder's first size is a product."""

import keras
from keras.layers import Activation, Conv2D, Conv2DTranspose, Dense, Flatten, Reshape

LATENT = 128

encoder = keras.Sequential(
    [
        keras.Input((32, 32, 3)),
        Conv2D(64, 3, strides=2, padding="same", activation="relu"),
        Conv2D(128, 3, strides=2, padding="same", activation="relu"),
        Flatten(),
        Dense(LATENT),
    ],
    name="encoder",
)
decoder = keras.Sequential(
    [
        keras.Input((LATENT,)),
        Dense(8 * 8 * 250, activation="relu"),
        Reshape((8, 8, 250)),
        Conv2DTranspose(126, 3, 2, "same"),  # expect: TC101 filters 126 -> 128, TC101 channels 250 -> 256
        Activation("relu"),
        Conv2DTranspose(64, 3, strides=2, padding="same", activation="relu"),
        Conv2D(3, 3, padding="same"),
    ],
    name="decoder",
)
image = keras.Input((32, 32, 3))
autoencoder = keras.Model(image, decoder(encoder(image)))
