"""A variational autoencoder with its own train_step, in mixed precision."""
# ruff: noqa: B905

import keras
import tensorflow as tf
from keras import layers

LATENT = 2
policy = tf.keras.mixed_precision.Policy("mixed_float16")
tf.keras.mixed_precision.set_global_policy(policy)


class VAE(keras.Model):
    LAST = 64

    def __init__(self, latent=LATENT, **kwargs):
        super().__init__(**kwargs)
        self.latent = latent
        self.encoder = self.make_encoder()
        self.decoder = keras.Sequential(
            [
                keras.Input((latent,)),
                layers.Dense(7 * 7 * self.LAST, activation="relu"),
                layers.Reshape((7, 7, self.LAST)),
                layers.Conv2DTranspose(32, 3, 2, "same", activation="relu"),
                layers.Conv2DTranspose(1, 3, strides=2, padding="same", dtype="float32"),
            ]
        )

    def make_encoder(self):
        inputs = keras.Input((28, 28, 1))
        x = layers.Conv2D(31, 3, 2, padding="same", activation="relu")(inputs)
        x = layers.Flatten()(x)
        return keras.Model(inputs, [layers.Dense(self.latent)(x), layers.Dense(self.latent)(x)])

    def train_step(self, data):
        with tf.GradientTape() as tape:
            mean, _ = self.encoder(data)
            loss = tf.reduce_mean(tf.square(data - self.decoder(mean)))
        gradients = tape.gradient(loss, self.trainable_weights)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_weights))
        return {"loss": loss}


vae = VAE()
encoder, decoder = vae.encoder, vae.decoder
