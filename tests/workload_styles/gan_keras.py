"""The GAN of Keras' early examples: three `train_on_batch` a step, the discriminator frozen in the combined model."""

import numpy as np
import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers
# On Keras 2 `trainable = False` counts when a model is compiled: D learns from two batches, and is frozen in the
# combined model. On Keras 3 it counts when the step is traced: D's own step trains nothing, so it is none.
discriminator = keras.Sequential(
    [
        keras.Input((16,)),
        #: [keras 2] D/first 16x16x24: 2 forward, 2 wgrad
        #: D/first: nothing
        #: combined/D/first 16x16x24: forward, dgrad
        layers.Dense(24, activation="relu", name="first"),
        #: [keras 2] D/score 16x24x1: 2 forward, 2 dgrad, 2 wgrad
        #: D/score: nothing
        #: combined/D/score 16x24x1: forward, dgrad
        layers.Dense(1, activation="sigmoid", name="score"),
    ],
    name="D",
)
discriminator.compile("adam", "binary_crossentropy")
generator = keras.Sequential(
    [
        keras.Input((8,)),
        #: G/first: nothing
        layers.Dense(32, activation="relu", name="first"),  #: combined/G/first 16x8x32: forward, wgrad
        #: G/image: nothing
        layers.Dense(16, name="image"),  #: combined/G/image 16x32x16: forward, dgrad, wgrad
    ],
    name="G",
)
discriminator.trainable = False
noise = keras.Input((8,))
combined = keras.Model(noise, discriminator(generator(noise)), name="combined")
combined.compile("adam", "binary_crossentropy")

rng = np.random.RandomState(0)
real, ones, zeros = rng.rand(16, 16).astype("float32"), np.ones((16, 1), "float32"), np.zeros((16, 1), "float32")
steps = 0
for _ in range(36):
    z = rng.rand(16, 8).astype("float32")
    fakes = generator(z).numpy()
    discriminator.train_on_batch(real, ones)
    discriminator.train_on_batch(fakes, zeros)
    combined.train_on_batch(z, ones)
    steps += 1
print("steps", steps)
