"""A GAN by one tape that goes through both models in turn, within one function."""
#: bench only

import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers
# D's turn: G forward, D on real and on fake images. G's turn: G forward, D forward. TensorFlow may merge nothing of
# it, for D's weights have changed when G's turn comes.
discriminator = keras.Sequential(
    [
        keras.Input((16,)),
        layers.Dense(24, activation="relu", name="first"),  #: D/first 16x16x24: 3 forward, dgrad, 2 wgrad
        layers.Dense(1, name="score"),  #: D/score 16x24x1: 3 forward, 3 dgrad, 2 wgrad
    ],
    name="D",
)
generator = keras.Sequential(
    [
        keras.Input((8,)),
        layers.Dense(32, activation="relu", name="first"),  #: G/first 16x8x32: 2 forward, wgrad
        layers.Dense(16, name="image"),  #: G/image 16x32x16: 2 forward, dgrad, wgrad
    ],
    name="G",
)
optimizers = {"D": keras.optimizers.SGD(0.01), "G": keras.optimizers.SGD(0.01)}
loss_of = keras.losses.BinaryCrossentropy(from_logits=True)


@tf.function
def train_step(images, noise):
    for model in (discriminator, generator):
        with tf.GradientTape() as tape:
            fake = discriminator(generator(noise))
            if model is discriminator:
                real = discriminator(images)
                loss = loss_of(tf.ones_like(real), real) + loss_of(tf.zeros_like(fake), fake)
            else:
                loss = loss_of(tf.ones_like(fake), fake)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizers[model.name].apply_gradients(zip(gradients, model.trainable_variables))


images = tf.random.normal((16, 16))
steps = 0
for _ in range(36):
    train_step(images, tf.random.normal((16, 8)))
    steps += 1
print("steps", steps)
