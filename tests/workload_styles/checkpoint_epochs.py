"""A loop whose every tenth step ends an epoch: validation and a checkpoint, which take far longer than a step."""
#: bench only

import tempfile
import time

import tensorflow as tf

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
checkpoint = tf.train.Checkpoint(model=model)
folder = tempfile.mkdtemp()


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))


@tf.function
def validate(x, y):
    return tf.reduce_mean(tf.square(model(x, training=False) - y))


steps = 0
for _ in range(4):
    for _ in range(10):
        train_step(x, y)
        steps += 1
    for _ in range(3):
        validate(x, y)
    checkpoint.save(folder + "/checkpoint")
    time.sleep(0.3)
print("steps", steps)
