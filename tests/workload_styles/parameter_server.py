"""ParameterServerStrategy with one worker and one server in this process: not supported, which is said."""
#: bench only
#: cold
#: said (?i)parameter ?server.*not supported
#: unknown steps, products

import os
import socket

import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("localhost", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


worker, server = ("localhost:%d" % port for port in free_ports(2))
spec = tf.train.ClusterSpec({"worker": [worker], "ps": [server]})
servers = [tf.distribute.Server(spec, job_name=job, task_index=0, protocol="grpc") for job in ("worker", "ps")]
os.environ["GRPC_FAIL_FAST"] = "use_caller"
resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(spec, rpc_layer="grpc")
make = getattr(tf.distribute, "ParameterServerStrategy", tf.distribute.experimental.ParameterServerStrategy)
strategy = make(resolver)
with strategy.scope():
    weights = tf.Variable(tf.random.normal((16, 4)))
coordinator_of = getattr(tf.distribute, "coordinator", tf.distribute.experimental.coordinator)
coordinator = coordinator_of.ClusterCoordinator(strategy)
x, y = tf.random.normal((32, 16)), tf.random.normal((32, 4))


@tf.function
def train_step():
    def replica_step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(tf.matmul(tf.ones((32, 16)), weights)))
        weights.assign_sub(0.01 * tape.gradient(loss, weights))

    strategy.run(replica_step)


steps = 0
for _ in range(36):
    coordinator.schedule(train_step)
    steps += 1
coordinator.join()
print("steps", steps, flush=True)
os._exit(0)  # the servers have no end of their own
