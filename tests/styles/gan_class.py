"""A GAN in one class, its networks built by methods; 784 are the pixels of an image and no size to choose."""

import numpy as np
from keras.layers import Dense, Flatten, Input, LeakyReLU, Reshape
from keras.models import Model, Sequential
from keras.optimizers import Adam


class GAN:
    def __init__(self):
        self.rows, self.columns, self.channels = 28, 28, 1
        self.image = (self.rows, self.columns, self.channels)
        self.latent = 128
        self.discriminator = self.build_discriminator()
        self.discriminator.compile(loss="binary_crossentropy", optimizer=Adam(0.0002, 0.5))
        self.generator = self.build_generator()
        noise = Input(shape=(self.latent,))
        made = self.generator(noise)
        self.combined = Model(noise, self.discriminator(made))
        self.combined.compile(loss="binary_crossentropy", optimizer=Adam(0.0002, 0.5))

    def build_generator(self):
        model = Sequential()
        model.add(Input((self.latent,)))
        for units in (256, 512, 1024):
            model.add(Dense(units))
            model.add(LeakyReLU(0.2))
        model.add(Dense(int(np.prod(self.image)), activation="tanh"))
        model.add(Reshape(self.image))
        noise = Input(shape=(self.latent,))
        return Model(noise, model(noise))

    def build_discriminator(self):
        model = Sequential([Flatten(), Dense(4090), LeakyReLU(0.2)])  # expect: TC101 units 4090 -> 4096
        model.add(Dense(512))
        model.add(LeakyReLU(0.2))
        model.add(Dense(1, activation="sigmoid"))
        image = Input(shape=self.image)
        return Model(image, model(image))


gan = GAN()
combined = gan.combined
