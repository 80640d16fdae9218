"""Gradients are summed in every call of a function and applied in every fourth, by `tf.cond`.

Nothing in the trace tells how often the branch is taken: a step is one call, and that it updates the weights only
every fourth time is said.
"""
#: said updated \d times in the \d+ calls

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
if hasattr(optimizer, "build"):
    optimizer.build(model.trainable_variables)
sums = [tf.Variable(tf.zeros_like(v), trainable=False) for v in model.trainable_variables]
count = tf.Variable(0, dtype=tf.int64, trainable=False)


def apply():
    optimizer.apply_gradients([(s.read_value() / 4, v) for s, v in zip(sums, model.trainable_variables)])
    for total in sums:
        total.assign(tf.zeros_like(total))
    return tf.constant(True)


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
    for total, gradient in zip(sums, tape.gradient(loss, model.trainable_variables)):
        total.assign_add(gradient)
    count.assign_add(1)
    tf.cond(count % 4 == 0, apply, lambda: tf.constant(False))
    return loss


x, y = tf.random.normal((32, 16)), tf.random.normal((32, 4))
steps = 0
for _ in range(36):
    train_step(x, y)
    steps += 1
print("steps", steps)
