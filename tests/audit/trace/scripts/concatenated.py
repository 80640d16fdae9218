# ruff: noqa
"""Features joined and kept apart, a depthwise convolution between products, an identity at the end, an attention, a broken model."""

import keras
import numpy as np
from keras import layers

image = keras.Input((32, 32, 3))
stem = layers.Conv2D(24, 3, padding="same", name="stem")(image)
deep = layers.DepthwiseConv2D(3, padding="same", name="deep")(stem)
point = layers.Conv2D(40, 1, name="point")(layers.ReLU()(layers.BatchNormalization()(deep)))
wider = layers.DepthwiseConv2D(3, padding="same", depth_multiplier=2, name="wider")(point)
after = layers.Conv2D(16, 1, name="after")(wider)
joined = layers.Concatenate()([stem, point, after])
dense = layers.Concatenate()([joined, layers.Conv2D(8, 3, padding="same", name="growth")(joined)])
head = layers.Dense(5, name="head")(layers.GlobalAveragePooling2D()(dense))
joins = keras.Model(image, layers.Activation("linear", name="identity")(head), name="joins")


class Attend(layers.Layer):
    def __init__(self):
        super().__init__()
        self.scores, self.values = layers.Dense(16), layers.Dense(8)
        self.weigh = layers.Softmax(name="weights")

    def call(self, x):
        weights = self.weigh(self.scores(x))
        return keras.ops.matmul(weights, self.values(x)), weights


class Shows(keras.Model):
    def __init__(self):
        super().__init__()
        self.attend, self.out = Attend(), layers.Dense(4, name="out")

    def call(self, x):
        y, weights = self.attend(x)
        return self.out(y), weights


shows = Shows()
shows(np.zeros((2, 16, 8), "float32"))


class Broken(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = layers.Dense(4)
        self.built_with = 0

    def build(self, shape):
        self.dense.build(shape)
        self.built = True

    def call(self, x):
        self.built_with += 1
        if self.built_with > 1:
            raise ValueError("called a second time")
        return self.dense(x)


broken = Broken()
broken(np.zeros((2, 8), "float32"))
anywhere = keras.Sequential([keras.Input((None, None, 3)), layers.Conv2D(9, 3, name="open")])
