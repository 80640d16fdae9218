"""One function takes the gradients, another applies them."""
#: bench only

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
optimizer = keras.optimizers.Adam(0.01)
if hasattr(optimizer, "build"):
    optimizer.build(model.trainable_variables)


@tf.function
def gradients_of(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
    return tape.gradient(loss, model.trainable_variables)


@tf.function
def apply(gradients):
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))


x, y = tf.random.normal((32, 16)), tf.random.normal((32, 4))
steps = 0
for _ in range(36):
    apply(gradients_of(x, y))
    steps += 1
print("steps", steps)
