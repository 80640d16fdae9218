"""A loop of one function over images of six sizes: each size is a trace of its own."""

import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers
model = keras.Sequential(
    [
        keras.Input((None, None, 3)),
        #: [shape 0] net/conv 4x8x8x4x3x3x3: forward, wgrad
        #: [shape 1] net/conv 4x10x10x4x3x3x3: forward, wgrad
        #: [shape 2] net/conv 4x12x12x4x3x3x3: forward, wgrad
        #: [shape 3] net/conv 4x14x14x4x3x3x3: forward, wgrad
        #: [shape 4] net/conv 4x16x16x4x3x3x3: forward, wgrad
        #: [shape 5] net/conv 4x18x18x4x3x3x3: forward, wgrad
        layers.Conv2D(4, 3, padding="same", activation="relu", name="conv"),
        layers.GlobalAveragePooling2D(name="mean"),  #: net/mean: nothing
        layers.Dense(2, name="out"),  #: net/out 4x4x2: forward, dgrad, wgrad
    ],
    name="net",
)
optimizer = keras.optimizers.SGD(0.01)


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))


shapes = [step * 5 % 6 if step < 12 else step * step % 6 for step in range(60)]
for shape in shapes:
    train_step(tf.ones((4, 8 + 2 * shape, 8 + 2 * shape, 3)), tf.ones((4, 2)))
print("shapes", *shapes)
print("steps", len(shapes))
