"""Meta-learning: four inner steps on a task move the weights a little; two tasks are learnt and forgotten."""
#: bench only

import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers
# Inner steps take 16 samples, those on the two tasks 8: a step is all ten of them.
model = keras.Sequential(
    [
        keras.Input((8,)),
        #: net/hidden 16x8x32: 4 forward, 4 wgrad
        #: net/hidden 8x8x32: 6 forward, 6 wgrad
        layers.Dense(32, activation="relu", name="hidden"),
        #: net/out 16x32x4: 4 forward, 4 dgrad, 4 wgrad
        #: net/out 8x32x4: 6 forward, 6 dgrad, 6 wgrad
        layers.Dense(4, name="out"),
    ],
    name="net",
)
optimizer = keras.optimizers.SGD(0.01)


def samples(count):
    return tf.random.normal((count, 8)), tf.random.normal((count, 4))


steps = 0
for _ in range(12):
    before = model.get_weights()
    for _ in range(4):
        x, y = samples(16)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    learnt = [old + 0.25 * (new - old) for old, new in zip(before, model.get_weights())]
    for _ in range(2):
        model.set_weights(learnt)
        for _ in range(3):
            x, y = samples(8)
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
            optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    model.set_weights(learnt)
    steps += 1
print("steps", steps)
