"""A Wasserstein GAN with a gradient penalty: a training step of its own, with a tape inside the tape."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers

IMG_SHAPE = (28, 28, 1)
BATCH_SIZE = 512
noise_dim = 128


def conv_block(x, filters, strides=(2, 2), use_dropout=False, drop_value=0.5):
    x = layers.Conv2D(filters, (5, 5), strides=strides, padding="same")(x)  # expect: TC101 filters 510 -> 512
    x = layers.LeakyReLU(0.2)(x)
    return layers.Dropout(drop_value)(x) if use_dropout else x


def get_discriminator_model():
    img_input = layers.Input(shape=IMG_SHAPE)
    # Zero pad the input to make the input images size to (32, 32, 1).
    x = layers.ZeroPadding2D((2, 2))(img_input)
    x = conv_block(x, 64)
    x = conv_block(x, 128, use_dropout=True, drop_value=0.3)
    x = conv_block(x, 256, use_dropout=True, drop_value=0.3)
    x = conv_block(x, 510)
    x = layers.Dropout(0.2)(layers.Flatten()(x))
    return keras.Model(img_input, layers.Dense(1)(x), name="discriminator")


def upsample_block(x, filters, activation):
    x = layers.UpSampling2D((2, 2))(x)
    x = layers.Conv2D(filters, (3, 3), strides=(1, 1), padding="same", use_bias=False)(x)
    x = layers.BatchNormalization()(x)
    return activation(x)


def get_generator_model():
    noise = layers.Input(shape=(noise_dim,))
    x = layers.Dense(4 * 4 * 256, use_bias=False)(noise)
    x = layers.LeakyReLU(0.2)(layers.BatchNormalization()(x))
    x = layers.Reshape((4, 4, 256))(x)
    x = upsample_block(x, 128, layers.LeakyReLU(0.2))
    x = upsample_block(x, 64, layers.LeakyReLU(0.2))
    x = upsample_block(x, 1, layers.Activation("tanh"))
    return keras.Model(noise, layers.Cropping2D((2, 2))(x), name="generator")


class WGAN(keras.Model):
    def __init__(self, discriminator, generator, latent_dim, discriminator_extra_steps=3, gp_weight=10.0):
        super().__init__()
        self.discriminator = discriminator
        self.generator = generator
        self.latent_dim = latent_dim
        self.d_steps = discriminator_extra_steps
        self.gp_weight = gp_weight

    def compile(self, d_optimizer, g_optimizer):
        super().compile()
        self.d_optimizer = d_optimizer
        self.g_optimizer = g_optimizer

    def gradient_penalty(self, batch_size, real_images, fake_images):
        """Ask for gradients of length 1 on images between the real and the made ones."""
        alpha = tf.random.uniform([batch_size, 1, 1, 1], 0.0, 1.0)
        interpolated = real_images + alpha * (fake_images - real_images)
        with tf.GradientTape() as gp_tape:
            gp_tape.watch(interpolated)
            pred = self.discriminator(interpolated, training=True)
        grads = gp_tape.gradient(pred, [interpolated])[0]
        norm = tf.sqrt(tf.reduce_sum(tf.square(grads), axis=[1, 2, 3]))
        return tf.reduce_mean((norm - 1.0) ** 2)

    def train_step(self, real_images):
        if isinstance(real_images, tuple):
            real_images = real_images[0]
        batch_size = tf.shape(real_images)[0]
        for _ in range(self.d_steps):
            random_latent_vectors = tf.random.normal(shape=(batch_size, self.latent_dim))
            with tf.GradientTape() as tape:
                fake_images = self.generator(random_latent_vectors, training=True)
                fake_logits = self.discriminator(fake_images, training=True)
                real_logits = self.discriminator(real_images, training=True)
                d_cost = tf.reduce_mean(fake_logits) - tf.reduce_mean(real_logits)
                d_loss = d_cost + self.gp_weight * self.gradient_penalty(batch_size, real_images, fake_images)
            d_gradient = tape.gradient(d_loss, self.discriminator.trainable_variables)
            self.d_optimizer.apply_gradients(zip(d_gradient, self.discriminator.trainable_variables))

        random_latent_vectors = tf.random.normal(shape=(batch_size, self.latent_dim))
        with tf.GradientTape() as tape:
            generated_images = self.generator(random_latent_vectors, training=True)
            g_loss = -tf.reduce_mean(self.discriminator(generated_images, training=True))
        gen_gradient = tape.gradient(g_loss, self.generator.trainable_variables)
        self.g_optimizer.apply_gradients(zip(gen_gradient, self.generator.trainable_variables))
        return {"d_loss": d_loss, "g_loss": g_loss}


if __name__ == "__main__":
    train_images = np.zeros((4096, *IMG_SHAPE), dtype="float32")
    wgan = WGAN(get_discriminator_model(), get_generator_model(), latent_dim=noise_dim)
    wgan.compile(
        d_optimizer=keras.optimizers.Adam(learning_rate=0.0002, beta_1=0.5, beta_2=0.9),
        g_optimizer=keras.optimizers.Adam(learning_rate=0.0002, beta_1=0.5, beta_2=0.9),
    )
    wgan.fit(train_images, batch_size=BATCH_SIZE, epochs=20)
