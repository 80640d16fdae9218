"""`fit` under MirroredStrategy on two logical CPUs: a step is one for both replicas."""
#: bench only

import numpy as np
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
    model.compile("sgd", "mse")
rng = np.random.RandomState(0)
x, y = rng.rand(576, 16).astype("float32"), rng.rand(576, 4).astype("float32")
model.fit(x, y, batch_size=32, epochs=2, verbose=0)
print("steps", int(model.optimizer.iterations.numpy()))
