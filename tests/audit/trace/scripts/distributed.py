# ruff: noqa
"""A strategy with two replicas: batches of a dataset, of arrays, and of a loop of the user's own."""

import numpy as np
import tensorflow as tf

layers = tf.keras.layers
x, y = np.zeros((200, 32), "float32"), np.zeros((200, 8), "float32")
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
data = tf.data.Dataset.from_tensor_slices((x, y))
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


def make(units):
    model = tf.keras.Sequential([tf.keras.Input((32,)), layers.Dense(units), layers.Dense(8)])
    model.compile("adam", "mse")
    return model


with strategy.scope():
    make(40).fit(data.batch(96))
    make(72).fit(x, y, batch_size=64)
    model, optimizer = make(136), tf.keras.optimizers.SGD()


def replica_step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    return loss


@tf.function
def train_step(batch):
    return strategy.run(replica_step, args=batch)


for batch in strategy.experimental_distribute_dataset(data.batch(32)):
    train_step(batch)
