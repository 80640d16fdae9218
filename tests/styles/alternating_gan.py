"""Generator and discriminator in functions of their own, called in turns."""

import argparse

import tensorflow as tf
from tensorflow.keras import layers

parser = argparse.ArgumentParser()
parser.add_argument("--width", type=int, default=1024)
parser.add_argument("--batch", type=int, default=4096)
args = parser.parse_args()

generator = tf.keras.Sequential(
    [
        tf.keras.Input((128,)),
        layers.Dense(args.width, activation="relu"),
        layers.Dense(args.width + 3, activation="relu"),  # expect: TC101 units 1027 -> 1024
        layers.Dense(784, activation="sigmoid"),
    ]
)
discriminator = tf.keras.Sequential(
    [tf.keras.Input((784,)), layers.Dense(2 * args.width, activation="relu"), layers.Dense(1)]
)
g_optimizer = tf.keras.optimizers.Adam(1e-4)
d_optimizer = tf.keras.optimizers.Adam(1e-4)
loss = tf.keras.losses.BinaryCrossentropy(from_logits=True)


@tf.function
def train_discriminator(real):
    noise = tf.random.normal((args.batch, 128))
    with tf.GradientTape() as tape:
        fake = discriminator(generator(noise))
        value = loss(tf.ones_like(fake), discriminator(real)) + loss(tf.zeros_like(fake), fake)
    variables = discriminator.trainable_variables
    d_optimizer.apply_gradients(zip(tape.gradient(value, variables), variables))
    return value


@tf.function
def train_generator():
    noise = tf.random.normal((args.batch, 128))
    with tf.GradientTape() as tape:
        fake = discriminator(generator(noise))
        value = loss(tf.ones_like(fake), fake)
    variables = generator.trainable_variables
    g_optimizer.apply_gradients(zip(tape.gradient(value, variables), variables))
    return value


def main():
    data = tf.data.Dataset.from_tensors(tf.random.uniform((args.batch, 784))).repeat(100)
    for images in data:
        print(float(train_discriminator(images)), float(train_generator()))


if __name__ == "__main__":
    main()
