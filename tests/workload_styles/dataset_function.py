"""Epochs in a function that loops over the dataset: ten steps a call."""

import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers
model = keras.Sequential(
    [
        keras.Input((16,)),
        layers.Dense(32, activation="relu", name="hidden"),  #: net/hidden 16x16x32: forward, wgrad
        layers.Dense(4, name="out"),  #: net/out 16x32x4: forward, dgrad, wgrad
    ],
    name="net",
)
optimizer = keras.optimizers.SGD(0.01)
if hasattr(optimizer, "build"):
    optimizer.build(model.trainable_variables)
dataset = tf.data.Dataset.from_tensor_slices((tf.random.normal((160, 16)), tf.random.normal((160, 4)))).batch(16)


@tf.function
def train_epoch():
    for x, y in dataset:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))


for _ in range(8):
    train_epoch()
print("steps", int(optimizer.iterations.numpy()))
