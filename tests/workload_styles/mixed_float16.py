"""A custom loop in mixed_float16 with a LossScaleOptimizer."""
#: bench only

import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers
keras.mixed_precision.set_global_policy("mixed_float16")
model = keras.Sequential(
    [
        keras.Input((16,)),
        layers.Dense(32, activation="relu", name="hidden"),  #: net/hidden 32x16x32: forward, wgrad
        layers.Dense(8, name="wide"),  #: net/wide 32x32x8: forward, dgrad, wgrad
        layers.Activation("linear", dtype="float32", name="cast"),  #: net/cast: nothing
    ],
    name="net",
)
optimizer = keras.mixed_precision.LossScaleOptimizer(keras.optimizers.SGD(0.01))
if hasattr(optimizer, "build"):
    optimizer.build(model.trainable_variables)
x, y = tf.random.normal((32, 16)), tf.random.normal((32, 8))


@tf.function
def train_step(x, y):
    variables = model.trainable_variables
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
        scaled = optimizer.scale_loss(loss) if hasattr(optimizer, "scale_loss") else optimizer.get_scaled_loss(loss)
    gradients = tape.gradient(scaled, variables)
    if hasattr(optimizer, "get_unscaled_gradients"):
        gradients = optimizer.get_unscaled_gradients(gradients)
    optimizer.apply_gradients(zip(gradients, variables))


steps = 0
for _ in range(36):
    train_step(x, y)
    steps += 1
print("steps", steps)
