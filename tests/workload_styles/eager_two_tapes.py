"""An eager GAN with a tape for each model, and a transposed convolution in the generator."""

import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers
# D's tape: G forward outside it, D on real and fake. G's tape: G and D forward, and back through both; an eager tape
# computes D's gradients of weights on the way, for nothing prunes it.
generator = keras.Sequential(
    [
        keras.Input((8,)),
        layers.Dense(72, name="dense"),  #: G/dense 16x8x72: 2 forward, wgrad
        layers.Reshape((3, 3, 8), name="reshape"),  #: G/reshape: nothing
        # a multiplication for each of 3*3 inputs
        #: G/up 16x3x3x8x3x3x4: 2 forward, dgrad, wgrad
        layers.Conv2DTranspose(4, 3, strides=2, padding="same", name="up"),
    ],
    name="G",
)
discriminator = keras.Sequential(
    [
        keras.Input((6, 6, 4)),
        # the gradient of a convolution makes both: that of the images too, which nobody asked for
        #: D/conv 16x3x3x8x3x3x4: 3 forward, 3 dgrad, 3 wgrad
        layers.Conv2D(8, 3, strides=2, padding="same", name="conv"),
        layers.Flatten(name="flat"),  #: D/flat: nothing
        layers.Dense(1, name="score"),  #: D/score 16x72x1: 3 forward, 3 dgrad, 3 wgrad
    ],
    name="D",
)
g_optimizer, d_optimizer = keras.optimizers.SGD(0.01), keras.optimizers.SGD(0.01)
loss_of = keras.losses.BinaryCrossentropy(from_logits=True)
images = tf.random.normal((16, 6, 6, 4))
steps = 0
for _ in range(34):
    fakes = generator(tf.random.normal((16, 8)), training=True)
    with tf.GradientTape() as d_tape:
        real, fake = discriminator(images, training=True), discriminator(fakes, training=True)
        d_loss = loss_of(tf.ones_like(real), real) + loss_of(tf.zeros_like(fake), fake)
    d_gradients = d_tape.gradient(d_loss, discriminator.trainable_variables)
    d_optimizer.apply_gradients(zip(d_gradients, discriminator.trainable_variables))
    with tf.GradientTape() as g_tape:
        fake = discriminator(generator(tf.random.normal((16, 8)), training=True), training=True)
        g_loss = loss_of(tf.ones_like(fake), fake)
    g_gradients = g_tape.gradient(g_loss, generator.trainable_variables)
    g_optimizer.apply_gradients(zip(g_gradients, generator.trainable_variables))
    steps += 1
print("steps", steps)
