"""A Wasserstein GAN: the critic is trained five times for each time of the generator."""

import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers
# Five steps of D: the fakes (forward of G alone), then D on real and on fake images.
# One step of G: G forward, D forward, the gradient through all of D and back through G.
generator = keras.Sequential(
    [
        keras.Input((8,)),
        layers.Dense(32, activation="relu", name="first"),  #: G/first 16x8x32: 6 forward, wgrad
        layers.Dense(16, name="image"),  #: G/image 16x32x16: 6 forward, dgrad, wgrad
    ],
    name="G",
)
discriminator = keras.Sequential(
    [
        keras.Input((16,)),
        layers.Dense(24, activation="relu", name="first"),  #: D/first 16x16x24: 11 forward, dgrad, 10 wgrad
        layers.Dense(1, name="score"),  #: D/score 16x24x1: 11 forward, 11 dgrad, 10 wgrad
    ],
    name="D",
)
g_optimizer, d_optimizer = keras.optimizers.Adam(1e-3), keras.optimizers.Adam(1e-3)


@tf.function
def train_discriminator(images, noise):
    fakes = generator(noise, training=True)
    with tf.GradientTape() as tape:
        real, fake = discriminator(images, training=True), discriminator(fakes, training=True)
        loss = tf.reduce_mean(fake) - tf.reduce_mean(real)
    variables = discriminator.trainable_variables
    d_optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
    return loss


@tf.function
def train_generator(noise):
    with tf.GradientTape() as tape:
        fake = discriminator(generator(noise, training=True), training=True)
        loss = -tf.reduce_mean(fake)
    variables = generator.trainable_variables
    g_optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
    return loss


images = tf.random.normal((16, 16))
steps = 0
for _ in range(36):
    for _ in range(5):
        train_discriminator(images, tf.random.normal((16, 8)))
    train_generator(tf.random.normal((16, 8)))
    steps += 1
print("steps", steps)
