"""Two phases: an autoencoder is trained by one function, then a classifier on its encoder by another."""

import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers
#: [phase 0] encoder 16x16x64: forward, wgrad
#: [phase 1] encoder 16x16x64: forward, wgrad
encoder = layers.Dense(64, activation="relu", name="encoder")
#: [phase 0] decoder 16x64x16: forward, dgrad, wgrad
decoder = layers.Dense(16, name="decoder")
#: [phase 1] head 16x64x4: forward, dgrad, wgrad
head = layers.Dense(4, name="head")
encoder.build((None, 16)), decoder.build((None, 64)), head.build((None, 64))
optimizers = [keras.optimizers.SGD(0.01), keras.optimizers.SGD(0.02)]


@tf.function
def pretrain(x):
    variables = encoder.trainable_variables + decoder.trainable_variables
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(decoder(encoder(x)) - x))
    optimizers[0].apply_gradients(zip(tape.gradient(loss, variables), variables))


@tf.function
def train(x, y):
    variables = encoder.trainable_variables + head.trainable_variables
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(head(encoder(x)) - y))
    optimizers[1].apply_gradients(zip(tape.gradient(loss, variables), variables))


x, y = tf.random.normal((16, 16)), tf.random.normal((16, 4))
steps = [0, 0]
for _ in range(12):
    pretrain(x)
    steps[0] += 1
for _ in range(40):
    train(x, y)
    steps[1] += 1
print("steps", *steps)
