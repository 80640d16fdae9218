"""MultiWorkerMirroredStrategy: this process is the chief and starts the second worker, a process of its own."""
#: bench only
#: cold
#: [keras 3] said can crash a worker

import json
import os
import socket
import subprocess
import sys

WORKER = int(os.environ.get("STYLE_WORKER", "0"))
if WORKER == 0:
    sockets = [socket.socket() for _ in range(2)]
    for each in sockets:
        each.bind(("localhost", 0))
    os.environ["STYLE_PORTS"] = " ".join(str(each.getsockname()[1]) for each in sockets)
    for each in sockets:
        each.close()
hosts = ["localhost:" + port for port in os.environ["STYLE_PORTS"].split()]
os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": hosts}, "task": {"type": "worker", "index": WORKER}})
if WORKER == 0:
    environment = dict(os.environ, STYLE_WORKER="1")
    other = subprocess.Popen([sys.executable, os.path.abspath(__file__)], env=environment, stdout=subprocess.DEVNULL)

import tensorflow as tf  # noqa: E402

keras, layers = tf.keras, tf.keras.layers
strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    model = keras.Sequential(
        [
            keras.Input((16,)),
            # the batch of 32 is split over two workers: this process does 16 rows
            layers.Dense(32, activation="relu", name="hidden"),  #: net/hidden 16x16x32: forward, wgrad
            layers.Dense(4, name="out"),  #: net/out 16x32x4: forward, dgrad, wgrad
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


@tf.function
def train_step(iterator):
    strategy.run(replica_step, args=next(iterator))


dataset = tf.data.Dataset.from_tensor_slices((tf.random.normal((320, 16)), tf.random.normal((320, 4)))).batch(32)
options = tf.data.Options()
options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
iterator = iter(strategy.experimental_distribute_dataset(dataset.repeat().with_options(options)))
steps = 0
for _ in range(36):
    train_step(iterator)
    steps += 1
print("steps", steps, flush=True)
if WORKER == 0:
    other.wait()
