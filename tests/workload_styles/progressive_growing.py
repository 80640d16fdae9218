"""A network that grows: three resolutions, a model and a function each, as in progressive GANs."""

import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers


def grown(size, filters):
    return keras.Sequential(
        [
            keras.Input((size, size, 3)),
            #: [phase 0] net4/conv 8x4x4x4x3x3x3: forward, wgrad
            #: [phase 1] net8/conv 8x8x8x8x3x3x3: forward, wgrad
            #: [phase 2] net16/conv 8x16x16x16x3x3x3: forward, wgrad
            layers.Conv2D(filters, 3, padding="same", activation="relu", name="conv"),
            #: [phase 0] net4/mean: nothing
            #: [phase 1] net8/mean: nothing
            #: [phase 2] net16/mean: nothing
            layers.GlobalAveragePooling2D(name="mean"),
            #: [phase 0] net4/score 8x4x1: forward, dgrad, wgrad
            #: [phase 1] net8/score 8x8x1: forward, dgrad, wgrad
            #: [phase 2] net16/score 8x16x1: forward, dgrad, wgrad
            layers.Dense(1, name="score"),
        ],
        name="net%d" % size,
    )


def trainer(model):
    optimizer = keras.optimizers.SGD(0.01)

    @tf.function
    def train_step(images, labels):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(images, training=True) - labels))
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))

    return train_step


counts = []
for size, filters, batches in ((4, 4, 10), (8, 8, 10), (16, 16, 40)):
    train_step, steps = trainer(grown(size, filters)), 0
    images, labels = tf.random.normal((8, size, size, 3)), tf.random.normal((8, 1))
    for _ in range(batches):
        train_step(images, labels)
        steps += 1
    counts.append(steps)
print("steps", *counts)
