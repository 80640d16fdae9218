"""Two phases of eager steps: pretraining of one model, then training of another; each calls its tf.function."""
#: bench only

import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers
# The backward function of a call computes the gradient of its input too, which nothing asks for.
first = keras.Sequential(
    [
        keras.Input((16,)),
        layers.Dense(32, activation="relu", name="hidden"),  #: [phase 0] first/hidden 32x16x32: forward, dgrad, wgrad
        layers.Dense(4, name="out"),  #: [phase 0] first/out 32x32x4: forward, dgrad, wgrad
    ],
    name="first",
)
second = keras.Sequential(
    [
        keras.Input((16,)),
        # by the function, and once more outside of it
        #: [phase 1] second/hidden 32x16x64: 2 forward, dgrad, 2 wgrad
        layers.Dense(64, activation="relu", name="hidden"),
        layers.Dense(4, name="out"),  #: [phase 1] second/out 32x64x4: 2 forward, 2 dgrad, 2 wgrad
    ],
    name="second",
)
optimizers = [keras.optimizers.SGD(0.01), keras.optimizers.SGD(0.01)]


@tf.function
def forward_first(x):
    return first(x, training=True)


@tf.function
def forward_second(x):
    return second(x, training=True)


x, y = tf.random.normal((32, 16)), tf.random.normal((32, 4))
steps = [0, 0]
for _ in range(12):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(forward_first(x) - y))
    optimizers[0].apply_gradients(zip(tape.gradient(loss, first.trainable_variables), first.trainable_variables))
    steps[0] += 1
for _ in range(40):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(forward_second(x) - y)) + tf.reduce_mean(tf.square(second(x)))
    optimizers[1].apply_gradients(zip(tape.gradient(loss, second.trainable_variables), second.trainable_variables))
    steps[1] += 1
print("steps", *steps)
