"""The forward pass in a function, the tape and the optimizer outside it."""

import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers
model = keras.Sequential(
    [
        keras.Input((16,)),
        # the backward pass is a function of its own, which returns the gradient of the data too
        layers.Dense(32, activation="relu", name="hidden"),  #: net/hidden 32x16x32: forward, dgrad, wgrad
        layers.Dense(4, name="out"),  #: net/out 32x32x4: forward, dgrad, wgrad
    ],
    name="net",
)
optimizer = keras.optimizers.SGD(0.01)


@tf.function
def forward(x):
    return model(x, training=True)


x, y = tf.random.normal((32, 16)), tf.random.normal((32, 4))
steps = 0
for _ in range(36):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(forward(x) - y))
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    steps += 1
print("steps", steps)
