"""Gradients of four batches are summed by one function and applied by another."""

import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers
model = keras.Sequential(
    [
        keras.Input((16,)),
        layers.Dense(32, activation="relu", name="hidden"),  #: net/hidden 32x16x32: 4 forward, 4 wgrad
        layers.Dense(4, name="out"),  #: net/out 32x32x4: 4 forward, 4 dgrad, 4 wgrad
    ],
    name="net",
)
optimizer = keras.optimizers.SGD(0.01)
if hasattr(optimizer, "build"):
    optimizer.build(model.trainable_variables)
sums = [tf.Variable(tf.zeros_like(v), trainable=False) for v in model.trainable_variables]


@tf.function
def accumulate(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
    for total, gradient in zip(sums, tape.gradient(loss, model.trainable_variables)):
        total.assign_add(gradient / 4)


@tf.function
def apply():
    optimizer.apply_gradients([(s.read_value(), v) for s, v in zip(sums, model.trainable_variables)])
    for total in sums:
        total.assign(tf.zeros_like(total))


x, y = tf.random.normal((32, 16)), tf.random.normal((32, 4))
steps = 0
for _ in range(34):
    for _ in range(4):
        accumulate(x, y)
    apply()
    steps += 1
print("steps", steps)
