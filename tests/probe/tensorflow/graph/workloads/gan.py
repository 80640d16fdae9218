"""A small GAN with a custom loop: plain, nested (every function a tf.function) or jit (compiled by XLA)."""

import sys

import tensorflow as tf

layers = tf.keras.layers
MODE = sys.argv[1] if len(sys.argv) > 1 else "plain"
BATCH = 8


def nested(function):
    return tf.function(function) if MODE == "nested" else function


def conv(filters, activation):
    return layers.Conv2D(filters, 5, padding="same", activation=activation)


def enlarged(images):
    """Repeat every pixel in both directions, by ops that XLA has had on the CPU since TensorFlow 2.4."""
    _, height, width, channels = images.shape
    rows = tf.tile(tf.reshape(images, [-1, height, 1, width, 1, channels]), [1, 1, 2, 1, 2, 1])
    return tf.reshape(rows, [-1, 2 * height, 2 * width, channels])


class Discriminator(tf.keras.Model):
    def __init__(self):
        super().__init__(name="discriminator")
        self.first, self.second, self.logit = conv(24, "tanh"), conv(64, "tanh"), layers.Dense(1)
        self.pool, self.flatten = layers.MaxPool2D(), layers.Flatten()

    @nested
    def call(self, images):
        return self.logit(self.flatten(self.pool(self.second(self.pool(self.first(images))))))


class Generator(tf.keras.Model):
    def __init__(self):
        super().__init__(name="generator")
        self.dense, self.first, self.second = layers.Dense(7 * 7 * 16), conv(16, "tanh"), conv(8, "tanh")
        self.last = conv(1, "sigmoid")

    @nested
    def call(self, noise):
        images = tf.reshape(self.dense(noise), [noise.shape[0], 7, 7, 16])
        return self.last(enlarged(self.second(enlarged(self.first(images)))))


@nested
def cross_entropy(logits, label):
    labels = tf.fill(tf.shape(logits), label)
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))


generator, discriminator = Generator(), Discriminator()
discriminator(generator(tf.zeros((1, 100))))
for_generator, for_discriminator = tf.keras.optimizers.Adam(1e-3), tf.keras.optimizers.RMSprop(1e-4)
if hasattr(for_generator, "build"):
    for_generator.build(generator.trainable_variables)
    for_discriminator.build(discriminator.trainable_variables)


@nested
def losses(images):
    fake = generator(tf.random.uniform((BATCH, 100)))
    real, forged = discriminator(images), discriminator(fake)
    return cross_entropy(forged, 1.0), 0.5 * (cross_entropy(real, 1.0) + cross_entropy(forged, 0.0))


def train_step(images):
    with tf.GradientTape() as tape:
        loss = losses(images)[0]
    variables = generator.trainable_variables
    for_generator.apply_gradients(zip(tape.gradient(loss, variables), variables))
    with tf.GradientTape() as tape:
        other = losses(images)[1]
    variables = discriminator.trainable_variables
    for_discriminator.apply_gradients(zip(tape.gradient(other, variables), variables))
    return loss, other


if MODE == "jit":
    compiled = "jit_compile" if tuple(map(int, tf.__version__.split(".")[:2])) >= (2, 5) else "experimental_compile"
    train_step = tf.function(train_step, **{compiled: True})
else:
    train_step = tf.function(train_step)
data = tf.random.uniform((BATCH, 28, 28, 1))
for _ in range(8):
    train_step(data)
