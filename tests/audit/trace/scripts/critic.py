# ruff: noqa
"""Two training functions: five steps of a critic, whose signature leaves the batch open, for one of a generator."""

import sys

import tensorflow as tf

layers = tf.keras.layers
generator = tf.keras.Sequential([tf.keras.Input((100,)), layers.Dense(333)], name="generator")
critic = tf.keras.Sequential([tf.keras.Input((333,)), layers.Dense(77), layers.Dense(1)], name="critic")
optimizers = tf.keras.optimizers.Adam(), tf.keras.optimizers.Adam()


@tf.function(input_signature=[tf.TensorSpec([None, 333])])
def train_critic(images):
    with tf.GradientTape() as tape:
        fake = generator(tf.random.normal((tf.shape(images)[0], 100)), training=True)
        loss = tf.reduce_mean(critic(fake)) - tf.reduce_mean(critic(images))
    variables = critic.trainable_variables
    optimizers[0].apply_gradients(zip(tape.gradient(loss, variables), variables))
    return loss


@tf.function
def train_generator(samples):
    with tf.GradientTape() as tape:
        loss = -tf.reduce_mean(critic(generator(tf.random.normal((samples, 100)), training=True)))
    variables = generator.trainable_variables
    optimizers[1].apply_gradients(zip(tape.gradient(loss, variables), variables))
    return {"loss": loss}


def main():
    for step in range(1000):
        for _ in range(5):
            first = train_critic(tf.zeros((int(sys.argv[1]), 333)))
        second = train_generator(int(sys.argv[1]))
        print("step %d: %.3f %.3f" % (step, first, second["loss"]))
    sys.exit("it ran to its end")


if __name__ == "__main__":
    main()
