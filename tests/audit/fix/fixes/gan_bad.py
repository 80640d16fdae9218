"""A GAN on MNIST-shaped images with badly sized layers, written down as literals: what `--fix` has to mend.

python gan_bad.py [BATCH [STEPS]]
"""

import sys

import numpy as np
import tensorflow as tf
from tensorflow.keras import layers

NOISE = 100
BATCH = 4090  # no multiple of 8 either, which does not matter


def build_generator():
    """Return the generator: noise to a 28x28x1 image."""
    return tf.keras.Sequential(
        [
            tf.keras.Input((NOISE,)),
            layers.Dense(7 * 7 * 63),  # depth of the first image
            layers.Reshape((7, 7, 63)),
            layers.BatchNormalization(),
            layers.Conv2D(63, 5, padding="same", activation="tanh"),
            layers.UpSampling2D(2, interpolation="nearest"),
            layers.BatchNormalization(),
            layers.Conv2D(filters=31, kernel_size=5, padding="same", activation="tanh"),
            layers.UpSampling2D(2, interpolation="nearest"),
            layers.BatchNormalization(),
            layers.Conv2D(7, 5, padding="same", activation="tanh"),
            layers.BatchNormalization(),
            layers.Conv2D(1, 5, padding="same"),  # the image
            layers.Activation("sigmoid", dtype="float32"),
        ],
        name="generator",
    )


def build_discriminator():
    """Return the discriminator: an image to one logit."""
    return tf.keras.Sequential(
        [
            tf.keras.Input((28, 28, 1)),
            layers.Conv2D(24, 5, padding="same", activation="tanh"),
            layers.MaxPooling2D(2),
            layers.Conv2D(64, 5, padding="same", activation="tanh"),
            layers.MaxPooling2D(2),
            layers.Flatten(),
            layers.Dense(1),
            layers.Activation("linear", dtype="float32"),
        ],
        name="discriminator",
    )


def cross_entropy(logits, label):
    """Return the mean loss of logits that should all say `label`."""
    labels = tf.fill(tf.shape(logits), label)
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))


def make_train_step(generator, discriminator):
    """Return the compiled step: images in, losses of generator and discriminator out."""
    for_generator, for_discriminator = tf.keras.optimizers.Adam(1e-3), tf.keras.optimizers.RMSprop(1e-4)

    def losses(images):
        noise = tf.random.uniform((images.shape[0], NOISE), -1.0, 1.0)
        real = discriminator(images, training=True)
        fake = discriminator(generator(noise, training=True), training=True)
        return cross_entropy(fake, 1.0), 0.5 * (cross_entropy(real, 1.0) + cross_entropy(fake, 0.0))

    @tf.function
    def train_step(images):
        with tf.GradientTape(persistent=True) as tape:
            generator_loss, discriminator_loss = losses(images)
        for model, loss, optimizer in (
            (generator, generator_loss, for_generator),
            (discriminator, discriminator_loss, for_discriminator),
        ):
            variables = model.trainable_variables
            optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return generator_loss, discriminator_loss

    return train_step


def main():
    """Train a few steps on noise."""
    batch = int(sys.argv[1]) if len(sys.argv) > 1 else BATCH
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    images = np.random.default_rng(0).random((batch, 28, 28, 1), dtype=np.float32)
    train_step = make_train_step(build_generator(), build_discriminator())
    for _ in range(steps):
        print("losses", *(round(float(loss), 3) for loss in train_step(tf.constant(images))))


if __name__ == "__main__":
    main()
