"""A Wasserstein GAN with gradient penalty: noise drawn in the step, images mixed with weights of their own."""

import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

NOISE = 128
BATCH = 64


class WGAN(keras.Model):
    def __init__(self, discriminator, generator, latent_dim):
        super().__init__()
        self.discriminator = discriminator
        self.generator = generator
        self.latent_dim = latent_dim

    def gradient_penalty(self, real, fake):
        alpha = tf.random.uniform([tf.shape(real)[0], 1, 1, 1], 0.0, 1.0)
        mixed = real + alpha * (fake - real)
        with tf.GradientTape() as tape:
            tape.watch(mixed)
            pred = self.discriminator(mixed, training=True)
        grads = tape.gradient(pred, [mixed])[0]
        return tf.reduce_mean((tf.sqrt(tf.reduce_sum(tf.square(grads), axis=[1, 2, 3])) - 1.0) ** 2)

    def train_step(self, real):
        batch = tf.shape(real)[0]
        noise = tf.random.normal(shape=(batch, self.latent_dim))
        with tf.GradientTape() as tape:
            fake = self.generator(noise, training=True)
            cost = tf.reduce_mean(self.discriminator(fake)) - tf.reduce_mean(self.discriminator(real))
            cost += 10.0 * self.gradient_penalty(real, fake)
        self.d_optimizer.apply_gradients(
            zip(tape.gradient(cost, self.discriminator.trainable_variables), self.discriminator.trainable_variables)
        )
        return {"loss": cost}


def make_generator():
    return keras.Sequential(
        [
            layers.Dense(4 * 4 * 250, use_bias=False),
            layers.Reshape((4, 4, 250)),
            layers.UpSampling2D(2),
            layers.Conv2D(126, 3, padding="same"),
            layers.UpSampling2D(2),
            layers.Conv2D(1, 3, padding="same", activation="tanh"),
        ]
    )


def make_discriminator():
    return keras.Sequential(
        [
            layers.ZeroPadding2D((2, 2)),
            layers.Conv2D(62, 5, strides=2),
            layers.LeakyReLU(0.2),
            layers.Flatten(),
            layers.Dense(1),
        ]
    )


gan = WGAN(make_discriminator(), make_generator(), latent_dim=NOISE)
images = gan.generator(tf.random.normal((BATCH, NOISE)))
gan.discriminator(images)
