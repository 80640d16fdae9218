"""A guide of three models with a `train_step` of their own, each trained by `fit`, as in Keras' guides."""

import numpy as np
import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers


class Custom(keras.Model):
    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self(x, training=True) - y))
        variables = self.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return {"loss": loss}


rng = np.random.RandomState(0)
x, y = rng.rand(576, 16).astype("float32"), rng.rand(576, 4).astype("float32")
counts = []

inputs = keras.Input((16,))
outputs = layers.Dense(4, name="only")(inputs)  #: [phase 0] first/only 64x16x4: forward, wgrad
model = Custom(inputs, outputs, name="first")
model.compile(optimizer="adam")
model.fit(x, y, batch_size=64, epochs=1, verbose=0)
counts.append(int(model.optimizer.iterations.numpy()))

inputs = keras.Input((16,))
h = layers.Dense(24, activation="relu", name="hidden")(inputs)  #: [phase 1] second/hidden 16x16x24: forward, wgrad
outputs = layers.Dense(4, name="out")(h)  #: [phase 1] second/out 16x24x4: forward, dgrad, wgrad
model = Custom(inputs, outputs, name="second")
model.compile(optimizer="adam")
model.fit(x, y, batch_size=16, epochs=1, verbose=0)
counts.append(int(model.optimizer.iterations.numpy()))

inputs = keras.Input((16,))
outputs = layers.Dense(4, name="last")(inputs)  #: [phase 2] third/last 64x16x4: forward, wgrad
model = Custom(inputs, outputs, name="third")
model.compile(optimizer="sgd")
model.fit(x, y, batch_size=64, epochs=1, verbose=0)
counts.append(int(model.optimizer.iterations.numpy()))
print("steps", *counts)
