"""The GAN of the tutorials on mixed precision: subclassed models, called with noise of NumPy's for their weights."""

import time

import numpy as np
import tensorflow as tf
from tensorflow.keras import layers

MIXED_PRECISION = True
if MIXED_PRECISION:
    policy = tf.keras.mixed_precision.Policy("mixed_float16")
    tf.keras.mixed_precision.set_global_policy(policy)

batch_size = 4090
epochs = 4
iterations = 60000 // batch_size


class Generator(tf.keras.Model):
    def __init__(self):
        super(Generator, self).__init__()
        self.dense = layers.Dense(7 * 7 * 63)
        self.norm_1 = layers.BatchNormalization()
        self.conv_1 = layers.Conv2D(63, (5, 5), padding="same", activation="tanh")
        self.up_1 = layers.UpSampling2D((2, 2))
        self.norm_2 = layers.BatchNormalization()
        self.conv_2 = layers.Conv2D(31, (5, 5), padding="same", activation="tanh")
        self.up_2 = layers.UpSampling2D((2, 2))
        self.norm_3 = layers.BatchNormalization()
        self.conv_3 = layers.Conv2D(7, (5, 5), padding="same", activation="tanh")
        self.norm_4 = layers.BatchNormalization()
        self.conv_4 = layers.Conv2D(1, (5, 5), padding="same", activation="sigmoid")

    def call(self, inputs, training=True):
        x = self.dense(inputs)
        x = tf.reshape(x, shape=[-1, 7, 7, 63])
        x = self.norm_1(x, training=training)
        x = self.conv_1(x)
        x = self.up_1(x)
        x = self.norm_2(x, training=training)
        x = self.conv_2(x)
        x = self.up_2(x)
        x = self.norm_3(x, training=training)
        x = self.conv_3(x)
        x = self.norm_4(x, training=training)
        return self.conv_4(x)


class Discriminator(tf.keras.Model):
    def __init__(self):
        super(Discriminator, self).__init__()
        self.conv_1 = layers.Conv2D(24, (5, 5), padding="same", activation="tanh")
        self.pool_1 = layers.MaxPooling2D((2, 2))
        self.drop_1 = layers.Dropout(0.4)
        self.conv_2 = layers.Conv2D(64, (5, 5), padding="same", activation="tanh")
        self.pool_2 = layers.MaxPooling2D((2, 2))
        self.drop_2 = layers.Dropout(0.4)
        self.conv_3 = layers.Conv2D(128, (5, 5), padding="same", activation="tanh")
        self.pool_3 = layers.MaxPooling2D((2, 2))
        self.drop_3 = layers.Dropout(0.4)
        self.flatten = layers.Flatten()
        self.dense = layers.Dense(1)

    def call(self, inputs, training=True):
        x = self.drop_1(self.pool_1(self.conv_1(inputs)), training=training)
        x = self.drop_2(self.pool_2(self.conv_2(x)), training=training)
        x = self.drop_3(self.pool_3(self.conv_3(x)), training=training)
        return self.dense(self.flatten(x))


generator = Generator()
discriminator = Discriminator()
cross_entropy = tf.keras.losses.BinaryCrossentropy(from_logits=True)
opt_gen = tf.keras.optimizers.Adam(1e-3)
opt_disc = tf.keras.optimizers.RMSprop(1e-4)

generated = generator(np.random.uniform(-1, 1, [1, 100]))
discriminator(generated)


@tf.function
def training_step(images):
    noise = np.random.uniform(-1, 1, [batch_size, 100])
    with tf.GradientTape() as gen_tape, tf.GradientTape() as disc_tape:
        fake = generator(noise, training=True)
        real_output = discriminator(images, training=True)
        fake_output = discriminator(fake, training=True)
        loss_gen = cross_entropy(tf.ones_like(fake_output), fake_output)
        loss_disc = cross_entropy(tf.ones_like(real_output), real_output)
        loss_disc += cross_entropy(tf.zeros_like(fake_output), fake_output)
    grads_gen = gen_tape.gradient(loss_gen, generator.trainable_variables)
    grads_disc = disc_tape.gradient(loss_disc, discriminator.trainable_variables)
    opt_gen.apply_gradients(zip(grads_gen, generator.trainable_variables))
    opt_disc.apply_gradients(zip(grads_disc, discriminator.trainable_variables))
    return loss_gen, loss_disc


(x_train, _), _ = tf.keras.datasets.mnist.load_data()
x_train = np.expand_dims(x_train.astype("float32") / 255.0, -1)
for epoch in range(epochs):
    for i in range(iterations):
        start = time.time()
        batch = x_train[i * batch_size : (i + 1) * batch_size]
        loss_gen, loss_disc = training_step(batch)
        print(epoch, i, float(loss_gen), float(loss_disc), time.time() - start)
