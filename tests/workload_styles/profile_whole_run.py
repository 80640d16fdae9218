"""A script that profiles itself from its first line to its last: its profile stands for tcprobe's."""
#: said profiled itself

import tempfile

import tensorflow as tf

tf.profiler.experimental.start(tempfile.mkdtemp())
keras, layers = tf.keras, tf.keras.layers
model = keras.Sequential(
    [
        keras.Input((16,)),
        layers.Dense(32, activation="relu", name="hidden"),  #: net/hidden 32x16x32: forward, wgrad
        layers.Dense(4, name="out"),  #: net/out 32x32x4: forward, dgrad, wgrad
    ],
    name="net",
)
optimizer = keras.optimizers.SGD(0.01)
x, y = tf.random.normal((32, 16)), tf.random.normal((32, 4))


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))


steps = 0
for _ in range(36):
    train_step(x, y)
    steps += 1
tf.profiler.experimental.stop()
print("steps", steps)
