"""Two functions train the same variables in turn, each with a loss of its own: one step is both."""
#: bench only

import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers
model = keras.Sequential(
    [
        keras.Input((16,)),
        layers.Dense(32, activation="relu", name="hidden"),  #: net/hidden 32x16x32: 2 forward, 2 wgrad
        layers.Dense(4, name="out"),  #: net/out 32x32x4: 2 forward, 2 dgrad, 2 wgrad
    ],
    name="net",
)
optimizer = keras.optimizers.SGD(0.01)
if hasattr(optimizer, "build"):
    optimizer.build(model.trainable_variables)
x, y = tf.random.normal((32, 16)), tf.random.normal((32, 4))


@tf.function
def fit_labels(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))


@tf.function
def stay_small(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.abs(model(x, training=True)))
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))


steps = 0
for _ in range(36):
    fit_labels(x, y)
    stay_small(x)
    steps += 1
print("steps", steps)
