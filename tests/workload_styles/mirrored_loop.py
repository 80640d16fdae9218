"""A custom loop under MirroredStrategy on two logical CPUs."""

import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
with strategy.scope():
    model = keras.Sequential(
        [
            keras.Input((16,)),
            # the batch of 32 is split: two replicas of 16 rows
            layers.Dense(32, activation="relu", name="hidden"),  #: net/hidden 16x16x32: 2 forward, 2 wgrad
            layers.Dense(4, name="out"),  #: net/out 16x32x4: 2 forward, 2 dgrad, 2 wgrad
        ],
        name="net",
    )
    optimizer = keras.optimizers.SGD(0.01)
    if hasattr(optimizer, "build"):
        optimizer.build(model.trainable_variables)


def replica_step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.square(model(x, training=True) - y)) / 32.0
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    return loss


@tf.function
def train_step(batch):
    losses = strategy.run(replica_step, args=batch)
    return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)


dataset = tf.data.Dataset.from_tensor_slices((tf.random.normal((288, 16)), tf.random.normal((288, 4)))).batch(32)
steps = 0
for _ in range(4):
    for batch in strategy.experimental_distribute_dataset(dataset):
        train_step(batch)
        steps += 1
print("steps", steps)
