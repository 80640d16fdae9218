"""A custom loop whose last batch is smaller: the function is traced again with an unknown batch size."""

import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers
model = keras.Sequential(
    [keras.Input((8, 8, 1)), layers.Conv2D(4, 3, activation="relu"), layers.Flatten(), layers.Dense(4)]
)
optimizer = keras.optimizers.SGD(0.01)
if hasattr(optimizer, "build"):
    optimizer.build(model.trainable_variables)
relaxed = {} if tuple(map(int, tf.__version__.split(".")[:2])) < (2, 9) else {"reduce_retracing": True}
if not relaxed:
    relaxed = {"experimental_relax_shapes": True}


@tf.function(**relaxed)
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


for _ in range(4):
    for rows in (8, 8, 5, 3):
        train_step(tf.ones((rows, 8, 8, 1)), tf.ones((rows, 4)))
