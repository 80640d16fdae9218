"""`fit` of a small convolutional network, with validation after every epoch."""

import numpy as np
import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers
inputs = keras.Input((12, 12, 1))
#: cnn/conv 16x10x10x8x3x3x1: forward, wgrad
h = layers.Conv2D(8, 3, activation="relu", name="conv")(inputs)
h = layers.MaxPooling2D(name="pool")(h)  #: cnn/pool: nothing
#: cnn/conv_b 16x5x5x16x3x3x8: forward, dgrad, wgrad
h = layers.Conv2D(16, 3, padding="same", activation="relu", name="conv_b")(h)
h = layers.GlobalAveragePooling2D(name="mean")(h)  #: cnn/mean: nothing
outputs = layers.Dense(10, name="classes")(h)  #: cnn/classes 16x16x10: forward, dgrad, wgrad
model = keras.Model(inputs, outputs, name="cnn")
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
rng = np.random.RandomState(0)
x, y = rng.rand(240, 12, 12, 1).astype("float32"), rng.randint(0, 10, 240)
model.fit(x, y, batch_size=16, epochs=3, validation_data=(x[:64], y[:64]), verbose=0)
print("steps", int(model.optimizer.iterations.numpy()))
