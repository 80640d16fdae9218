"""A GAN's step with auto-clustering by XLA."""
#: bench only
#: cold

import os

os.environ["TF_XLA_FLAGS"] = "--tf_xla_auto_jit=2 --tf_xla_cpu_global_jit"

import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers
generator = keras.Sequential(
    [
        keras.Input((8,)),
        layers.Dense(32, activation="relu", name="first"),  #: G/first 16x8x32: forward, wgrad
        layers.Dense(16, name="image"),  #: G/image 16x32x16: forward, dgrad, wgrad
    ],
    name="G",
)
discriminator = keras.Sequential(
    [
        keras.Input((4, 4, 1)),
        # real and fake; G's loss goes on through the fakes
        #: D/conv 16x4x4x8x3x3x1: 2 forward, dgrad, 2 wgrad
        layers.Conv2D(8, 3, padding="same", activation="relu", name="conv"),
        layers.Flatten(name="flat"),  #: D/flat: nothing
        layers.Dense(8, activation="relu", name="hidden"),  #: D/hidden 16x128x8: 2 forward, 3 dgrad, 2 wgrad
        layers.Dense(2, name="score"),  #: D/score 16x8x2: 2 forward, 3 dgrad, 2 wgrad
    ],
    name="D",
)
g_optimizer, d_optimizer = keras.optimizers.SGD(0.01), keras.optimizers.SGD(0.01)
for optimizer, model in ((g_optimizer, generator), (d_optimizer, discriminator)):
    if hasattr(optimizer, "build"):
        optimizer.build(model.trainable_variables)


@tf.function
def train_step(images, noise):
    with tf.GradientTape() as g_tape, tf.GradientTape() as d_tape:
        fakes = tf.reshape(generator(noise, training=True), (16, 4, 4, 1))
        real, fake = discriminator(images, training=True), discriminator(fakes, training=True)
        g_loss = tf.reduce_mean(tf.square(fake - 1.0))
        d_loss = tf.reduce_mean(tf.square(real - 1.0)) + tf.reduce_mean(tf.square(fake))
    g_variables, d_variables = generator.trainable_variables, discriminator.trainable_variables
    g_optimizer.apply_gradients(zip(g_tape.gradient(g_loss, g_variables), g_variables))
    d_optimizer.apply_gradients(zip(d_tape.gradient(d_loss, d_variables), d_variables))


images = tf.random.normal((16, 4, 4, 1))
steps = 0
for _ in range(36):
    train_step(images, tf.random.normal((16, 8)))
    steps += 1
print("steps", steps)
