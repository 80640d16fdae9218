"""The DCGAN tutorial's shape: generator and discriminator in one function with two tapes."""

import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers


def make_generator():
    return keras.Sequential(
        [
            keras.Input((8,)),
            #: generator/dense 16x8x288: forward, wgrad
            layers.Dense(6 * 6 * 8, use_bias=False),
            layers.BatchNormalization(name="norm"),  #: generator/norm: nothing
            layers.LeakyReLU(name="leaky"),  #: generator/leaky: nothing
            layers.Reshape((6, 6, 8), name="reshape"),  #: generator/reshape: nothing
            # a multiplication for each of 6*6 inputs: 8 channels by 5*5 taps by 4 filters
            #: generator/up 16x6x6x8x5x5x4: forward, dgrad, wgrad
            layers.Conv2DTranspose(4, 5, strides=2, padding="same", use_bias=False, name="up"),
            #: generator/image 16x12x12x4x5x5x1: forward, dgrad, wgrad
            layers.Conv2DTranspose(1, 5, strides=1, padding="same", activation="tanh", name="image"),
        ],
        name="generator",
    )


def make_discriminator():
    return keras.Sequential(
        [
            keras.Input((12, 12, 1)),
            # real and fake; the gradient of the fakes goes on to G (the real images' is dead)
            #: discriminator/conv 16x6x6x8x5x5x1: 2 forward, dgrad, 2 wgrad
            layers.Conv2D(8, 5, strides=2, padding="same", name="conv"),
            layers.LeakyReLU(name="leaky"),  #: discriminator/leaky: nothing
            layers.Dropout(0.3, name="dropout"),  #: discriminator/dropout: nothing
            layers.Flatten(name="flat"),  #: discriminator/flat: nothing
            # dgrad: of D's loss on real and on fake images, and of G's loss
            layers.Dense(1, name="score"),  #: discriminator/score 16x288x1: 2 forward, 3 dgrad, 2 wgrad
        ],
        name="discriminator",
    )


generator, discriminator = make_generator(), make_discriminator()
g_optimizer, d_optimizer = keras.optimizers.Adam(1e-4), keras.optimizers.Adam(1e-4)
cross_entropy = keras.losses.BinaryCrossentropy(from_logits=True)


@tf.function
def train_step(images):
    noise = tf.random.normal([16, 8])
    with tf.GradientTape() as g_tape, tf.GradientTape() as d_tape:
        fakes = generator(noise, training=True)
        real, fake = discriminator(images, training=True), discriminator(fakes, training=True)
        g_loss = cross_entropy(tf.ones_like(fake), fake)
        d_loss = cross_entropy(tf.ones_like(real), real) + cross_entropy(tf.zeros_like(fake), fake)
    g_variables, d_variables = generator.trainable_variables, discriminator.trainable_variables
    g_optimizer.apply_gradients(zip(g_tape.gradient(g_loss, g_variables), g_variables))
    d_optimizer.apply_gradients(zip(d_tape.gradient(d_loss, d_variables), d_variables))


dataset = tf.data.Dataset.from_tensor_slices(tf.random.normal((160, 12, 12, 1))).batch(16)
steps = 0
for _ in range(4):
    for batch in dataset:
        train_step(batch)
        steps += 1
print("steps", steps)
