"""A loop of one function over lengths in buckets: its input_signature leaves the length open, so it has one trace."""

import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers
model = keras.Sequential(
    [
        keras.Input((None, 8)),
        #: [shape 0] net/hidden 16x64x8x32: forward, wgrad
        #: [shape 1] net/hidden 16x8x8x32: forward, wgrad
        #: [shape 2] net/hidden 5x16x8x32: forward, wgrad
        layers.Dense(32, activation="relu", name="hidden"),
        #: [shape 0] net/out 16x64x32x4: forward, dgrad, wgrad
        #: [shape 1] net/out 16x8x32x4: forward, dgrad, wgrad
        #: [shape 2] net/out 5x16x32x4: forward, dgrad, wgrad
        layers.Dense(4, name="out"),
    ],
    name="net",
)
optimizer = keras.optimizers.SGD(0.01)


@tf.function(input_signature=[tf.TensorSpec([None, None, 8]), tf.TensorSpec([None, None, 4])])
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))


shapes = [(0, 1, 1, 2, 1)[step * 3 % 5] for step in range(45)]
for shape in shapes:
    rows, length = ((16, 64), (16, 8), (5, 16))[shape]
    train_step(tf.ones((rows, length, 8)), tf.ones((rows, length, 4)))
print("shapes", *shapes)
print("steps", len(shapes))
