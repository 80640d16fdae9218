"""A model with its own `train_step`, trained by `fit`."""
#: bench only

import numpy as np
import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers


class Regression(keras.Model):
    def __init__(self):
        super().__init__()
        self.hidden = layers.Dense(32, activation="relu")  #: regression/dense 32x16x32: forward, wgrad
        self.out = layers.Dense(4)  #: regression/dense_1 32x32x4: forward, dgrad, wgrad
        self.mean = keras.metrics.Mean(name="loss")

    def call(self, inputs):
        return self.out(self.hidden(inputs))

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self(x) - y))
        variables = self.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        self.mean.update_state(loss)
        return {"loss": self.mean.result()}


model = Regression()
model.compile(optimizer="adam")
rng = np.random.RandomState(0)
x, y = rng.rand(640, 16).astype("float32"), rng.rand(640, 4).astype("float32")
model.fit(x, y, batch_size=32, epochs=2, verbose=0)
print("steps", int(model.optimizer.iterations.numpy()))
