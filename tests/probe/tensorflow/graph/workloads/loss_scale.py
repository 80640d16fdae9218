"""Mixed float16 with a LossScaleOptimizer, which updates the weights inside a tf.cond."""

import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers
keras.mixed_precision.set_global_policy("mixed_float16")
model = keras.Sequential(
    [keras.Input((32,)), layers.Dense(64, activation="relu"), layers.Dense(64), layers.Dense(10, dtype="float32")]
)
optimizer = keras.mixed_precision.LossScaleOptimizer(keras.optimizers.Adam())
old = hasattr(optimizer, "get_scaled_loss")


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
        scaled = optimizer.get_scaled_loss(loss) if old else optimizer.scale_loss(loss)
    gradients = tape.gradient(scaled, model.trainable_variables)
    gradients = optimizer.get_unscaled_gradients(gradients) if old else gradients
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


for _ in range(8):
    train_step(tf.ones((16, 32)), tf.ones((16, 10)))
keras.mixed_precision.set_global_policy("float32")
