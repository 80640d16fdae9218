"""A generator as DCGAN's: a weight of a transposed convolution meets each position of its input once in each pass."""
#: bench only

import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers
model = keras.Sequential(
    [
        keras.Input((8,)),
        layers.Dense(4 * 4 * 16, name="seed"),  #: net/seed 16x8x256: forward, wgrad
        layers.Reshape((4, 4, 16), name="image"),  #: net/image: nothing
        #: net/same 16x4x4x16x5x5x8: forward, dgrad, wgrad
        layers.Conv2DTranspose(8, 5, padding="same", use_bias=False, name="same"),
        #: net/twice 16x4x4x8x5x5x4: forward, dgrad, wgrad
        layers.Conv2DTranspose(4, 5, strides=2, padding="same", use_bias=False, name="twice"),
        #: net/valid 16x8x8x4x3x3x1: forward, dgrad, wgrad
        layers.Conv2DTranspose(1, 3, strides=2, use_bias=False, name="valid"),
    ],
    name="net",
)
optimizer = keras.optimizers.SGD(0.01)
noise = tf.random.normal((16, 8))


@tf.function
def train_step(noise):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(noise, training=True)))
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))


steps = 0
for _ in range(36):
    train_step(noise)
    steps += 1
print("steps", steps)
