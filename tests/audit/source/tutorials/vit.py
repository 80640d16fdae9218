"""A vision transformer: patches cut by hand, a class token, learned positions."""

import keras
import numpy as np
from keras import layers, ops

IMAGE, PATCH, DIM, HEADS, CLASSES = 72, 6, 60, 4, 100
PATCHES = (IMAGE // PATCH) ** 2
SIDE = int(np.sqrt(PATCHES))


class Patches(layers.Layer):
    def __init__(self, size):
        super().__init__()
        self.size = size

    def call(self, images):
        shape = ops.shape(images)
        batch, height, width, channels = shape[0], shape[1], shape[2], shape[3]
        rows, columns = height // self.size, width // self.size
        x = ops.reshape(images, (batch, rows, self.size, columns, self.size, channels))
        x = ops.transpose(x, (0, 1, 3, 2, 4, 5))
        return ops.reshape(x, (batch, rows * columns, self.size * self.size * channels))


class PatchEncoder(layers.Layer):
    def __init__(self, count, dim):
        super().__init__()
        self.count = count
        self.projection = layers.Dense(dim)
        self.position = layers.Embedding(count, dim)
        self.token = self.add_weight(shape=(1, 1, dim))

    def call(self, patches):
        positions = ops.expand_dims(ops.arange(start=0, stop=self.count, step=1), axis=0)
        x = self.projection(patches) + self.position(positions)
        token = ops.broadcast_to(self.token, (ops.shape(x)[0], 1, x.shape[-1]))
        return ops.concatenate([token, x], axis=1)


class Attention(layers.Layer):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.depth = heads, dim // heads
        self.qkv = layers.Dense(3 * dim)
        self.out = layers.Dense(dim)

    def call(self, x):
        _, count, dim = x.shape
        qkv = ops.reshape(self.qkv(x), (-1, count, 3, self.heads, self.depth))
        qkv = ops.transpose(qkv, (2, 0, 3, 1, 4))
        q, k, v = qkv[0], qkv[1], qkv[2]
        scores = ops.softmax(ops.matmul(q, ops.transpose(k, (0, 1, 3, 2))) * self.depth**-0.5)
        x = ops.einsum("bhij,bhjd->bihd", scores, v)
        return self.out(ops.reshape(x, (-1, count, dim)))


inputs = keras.Input((IMAGE, IMAGE, 3))
x = PatchEncoder(PATCHES, DIM)(Patches(PATCH)(inputs))
for _ in range(2):
    x = layers.Add()([x, Attention(DIM, HEADS)(layers.LayerNormalization()(x))])
    y = layers.Dense(2 * DIM, activation="gelu")(layers.LayerNormalization()(x))
    x = x + layers.Dense(DIM)(y)
head = layers.Dense(CLASSES)(x[:, 0])
images = ops.reshape(x[:, 1:], (-1, SIDE, SIDE, DIM))
auxiliary = layers.Conv2D(CLASSES, 1)(ops.mean(images, axis=(1, 2), keepdims=True))
model = keras.Model(inputs, [head, auxiliary])
