"""Four batches in a loop inside the function, whose gradients are summed and applied at its end."""

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


@tf.function
def train_step(xs, ys):
    sums = [tf.zeros_like(v) for v in model.trainable_variables]
    for i in tf.range(4):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(xs[i], training=True) - ys[i]))
        gradients = tape.gradient(loss, model.trainable_variables)
        sums = [s + g / 4 for s, g in zip(sums, gradients)]
    optimizer.apply_gradients(zip(sums, model.trainable_variables))


xs, ys = tf.random.normal((4, 32, 16)), tf.random.normal((4, 32, 4))
steps = 0
for _ in range(36):
    train_step(xs, ys)
    steps += 1
print("steps", steps)
