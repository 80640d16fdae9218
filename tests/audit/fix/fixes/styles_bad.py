"""Badly sized models in the styles that people write: a residual network, and a subclassed one that reshapes itself."""

import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

WIDTH = 63


def conv(x, filters):
    x = layers.Conv2D(filters, 3, padding="same", use_bias=False)(x)
    x = layers.BatchNormalization()(x)
    return layers.ReLU()(x)


def residual(x, filters=63):
    shortcut = layers.Conv2D(filters, 1)(x)
    x = conv(x, 47)  # narrow
    x = conv(x, filters)
    return layers.Add()([x, shortcut])


def build_residual():
    inputs = keras.Input((64, 64, 8))
    x = conv(inputs, WIDTH)
    x = residual(x)
    x = residual(x)
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(inputs, layers.Dense(10)(x))


class Net(keras.Model):
    def __init__(self):
        super().__init__()
        self.first = layers.Conv2D(127, 3, padding="same")
        self.second = layers.Conv2D(64, 3, strides=2)
        self.project = layers.Dense(16 * 16 * 31)
        self.up = layers.Conv2D(64, 3)
        self.head = layers.Dense(10)

    def call(self, x):
        x = tf.nn.relu(self.second(tf.nn.relu(self.first(x))))
        x = self.project(tf.reduce_mean(x, axis=[1, 2]))
        x = tf.reshape(x, (-1, 16, 16, 31))
        return self.head(tf.reduce_mean(self.up(x), axis=[1, 2]))


def build_subclassed():
    model = Net()
    model(tf.zeros((1, 64, 64, 16)))
    return model


if __name__ == "__main__":
    for model, channels in ((build_residual(), 8), (build_subclassed(), 16)):
        model.compile("sgd", "mse")
        images = tf.random.normal((4, 64, 64, channels))
        model.fit(images, tf.zeros((4, 10)), batch_size=2, verbose=0)
        print("sizes", *sorted({weight.shape[-1] for weight in model.weights}))
