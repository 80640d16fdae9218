"""A Wasserstein critic with a gradient penalty: a tape within a tape, in one function."""

import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers
# Forward on real, fake and mixed images; the score of the mixed ones nobody reads, only its gradient. The inner tape:
# the gradient of the mixed images, through both layers (ones x score', what follows x first').
# The outer one: gradients of real and fake as ever. Of the penalty: of the inner product with first' the gradients of
# both operands (the weights', and `other`), the weights' of the product with score', and through tanh, whose derivative
# depends on the mixed images' activations, those of the first layer once more.
critic = keras.Sequential(
    [
        keras.Input((16,)),
        #: critic/first 16x16x24: 3 forward, dgrad, 4 wgrad, other
        layers.Dense(24, activation="tanh", name="first"),
        #: critic/score 16x24x1: 2 forward, 3 dgrad, 3 wgrad
        layers.Dense(1, name="score"),
    ],
    name="critic",
)
optimizer = keras.optimizers.Adam(1e-4)


@tf.function
def train_step(real, fake):
    mixed = real + tf.random.uniform((16, 1)) * (fake - real)
    with tf.GradientTape() as tape:
        with tf.GradientTape() as inner:
            inner.watch(mixed)
            score = critic(mixed, training=True)
        slope = tf.norm(inner.gradient(score, mixed) + 1e-6, axis=1)
        loss = tf.reduce_mean(critic(fake)) - tf.reduce_mean(critic(real)) + 10.0 * tf.reduce_mean((slope - 1.0) ** 2)
    optimizer.apply_gradients(zip(tape.gradient(loss, critic.trainable_variables), critic.trainable_variables))
    return loss


real, fake = tf.random.normal((16, 16)), tf.random.normal((16, 16))
steps = 0
for _ in range(36):
    train_step(real, fake)
    steps += 1
print("steps", steps)
