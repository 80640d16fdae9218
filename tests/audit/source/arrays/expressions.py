"""Expressions on tensors: what source mode reads of them is compared with what the libraries compute."""

from __future__ import annotations

HEAD = """\
import math
import numpy as np
import tensorflow as tf
import keras
from keras import ops
from tensorflow.keras import backend as K
"""
BATCHED = {"x": (6, 8, 4), "s": (10, 12), "t": (10, 12), "v": (12,)}
"""Inputs of a model by name, without the batch: an image, two sequences, a row."""
SYMBOLIC = """
tf.nn.relu(x) * 2.0
x + 1 - x / 3
1.0 - s
-s
s + v[:, None]
s + v[:, tf.newaxis, :]
s * tf.range(12.0)
s + np.arange(10)[:, np.newaxis]
tf.maximum(s, v[:, None])
tf.where(s > 0, s, tf.zeros_like(s))
ops.where(s > 0, s, 0.0)
tf.add(s, t)
s ** 2 + t
x[:, :3]
x[:, 1:-1, ::2]
x[..., 0]
x[..., ::2]
x[:, -1]
x[:, :, None]
x[:, 2, 3, 1]
s[:, :100]
s[:, 3:7, tf.newaxis]
x[:, :x.shape[1] // 2]
tf.reshape(x, (-1, 48, 4))
tf.reshape(x, [-1, 4])
tf.reshape(x, (tf.shape(x)[0], -1, 4))
tf.reshape(x, (tf.shape(x)[0], x.shape[1] * x.shape[2], x.shape[3]))
tf.reshape(tensor=x, shape=[-1, 3, 2, 32])
tf.reshape(tf.reshape(x, (-1, 2, 3, 8, 4)), (-1, 6, 8, 4))
tf.reshape(x, [-1])
ops.reshape(x, (-1, np.prod(x.shape[1:])))
ops.reshape(x, (ops.shape(x)[0], 6, 32))
K.reshape(x, (-1, K.int_shape(x)[1], 32))
tf.transpose(x, [0, 3, 1, 2])
tf.transpose(x, (1, 0, 2, 3))
tf.transpose(tf.transpose(x, (3, 0, 1, 2)), perm=(1, 2, 3, 0))
tf.transpose(x, (2, 0, 1, 3))[0]
ops.transpose(x)
ops.swapaxes(x, 1, -1)
ops.moveaxis(x, -1, 1)
K.permute_dimensions(x, (0, 2, 1, 3))
tf.concat([x, x], axis=-1)
tf.concat([x, x[:, :2]], 1)
tf.concat(values=[x, tf.zeros_like(x)], axis=3)
ops.concatenate([s, t], axis=1)
tf.nn.max_pool2d(x, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME")
tf.nn.max_pool2d(x, 3, 2, "VALID")
tf.nn.max_pool(x, (2, 3), (1, 2), padding="VALID", data_format="NHWC")
tf.compat.v1.nn.avg_pool(value=x, ksize=[1, 3, 3, 1], strides=[1, 1, 1, 1], padding="SAME")
tf.nn.avg_pool1d(s, ksize=2, strides=2, padding="VALID")
ops.max_pool(x, 2)
ops.max_pool(x, (2, 3), strides=1, padding="same")
ops.average_pool(s, 3, padding="valid")
tf.nn.conv2d(x, tf.Variable(tf.ones([3, 3, 4, 7])), strides=[1, 2, 2, 1], padding="SAME")
tf.nn.conv2d(x, filters=tf.ones([2, 3, 4, 7]), strides=1, padding="VALID", dilations=2)
tf.compat.v1.nn.conv2d(x, filter=tf.ones([3, 3, 4, 7]), strides=[1, 1, 1, 1], padding="VALID")
tf.nn.conv1d(s, tf.ones([3, 12, 5]), stride=2, padding="VALID")
tf.nn.max_pool2d(tf.nn.relu(tf.nn.conv2d(x, tf.ones([3, 3, 4, 7]), 1, "SAME")), 2, 2, "VALID")
ops.conv(x, tf.ones([3, 3, 4, 7]), strides=2, padding="same")
ops.conv(x, tf.ones([3, 3, 4, 7]), dilation_rate=2)
ops.concatenate([s, t])
K.concatenate([s, t])
tf.stack([s, t], axis=1)
tf.stack([s, t], axis=-1)
ops.stack([s, t, s], axis=2)
tf.split(x, 2, axis=-1)[1]
tf.split(x, [1, 3], axis=-1)[1]
tf.split(x, [1, -1], -1)[1]
ops.split(s, 3, axis=-1)[0]
ops.split(s, [2, 5], axis=1)[2]
tf.unstack(s, axis=1)[0]
tf.unstack(tf.transpose(tf.reshape(s, (-1, 10, 3, 4)), (2, 0, 1, 3)), num=3)[1]
tf.tile(s, [1, 2, 3])
tf.tile(s, (2, 1, 1))
ops.tile(v[:, None], (1, 5, 1))
tf.tile(tf.zeros((1, 1, 7)), [tf.shape(x)[0], 1, 1])
tf.repeat(s, 3, axis=1)
tf.repeat(v, repeats=2, axis=0)
ops.repeat(s, 2, axis=-1)
tf.pad(x, [[0, 0], [1, 1], [2, 0], [0, 0]])
ops.pad(s, ((0, 0), (0, 4), (0, 0)))
tf.expand_dims(s, 1)
tf.expand_dims(s, axis=-1)
ops.expand_dims(s, axis=2)
tf.squeeze(tf.expand_dims(s, 1), 1)
tf.squeeze(x[:, :1, :1], axis=[1, 2])
ops.squeeze(s[:, :1], axis=1)
tf.reduce_mean(x, axis=[1, 2])
tf.reduce_mean(x, [1, 2], keepdims=True)
tf.reduce_sum(s, axis=-1)
tf.reduce_max(s, 1)
ops.mean(x, axis=(1, 2))
ops.sum(s, axis=1, keepdims=True)
ops.max(s, axis=-1)
tf.norm(s, axis=-1)
tf.math.l2_normalize(s, axis=-1)
tf.nn.moments(x, axes=[1, 2])[0]
tf.argmax(s, axis=-1)
ops.argmax(s, axis=1)
tf.nn.softmax(s, axis=1)
tf.nn.top_k(s, k=3)[0]
tf.matmul(s, t, transpose_b=True)
tf.matmul(tf.matmul(s, t, transpose_b=True), t)
s @ ops.transpose(t, (0, 2, 1))
ops.matmul(x, tf.ones((4, 9)))
tf.linalg.matmul(s, tf.ones((12, 5)))
ops.dot(s, ops.ones((12, 5)))
tf.tensordot(s, tf.ones((12, 5)), 1)
tf.tensordot(x, tf.ones((8, 4, 5)), axes=2)
tf.einsum('bld,bmd->blm', s, t)
tf.einsum('bhwc,cd->bhwd', x, tf.ones((4, 9)))
ops.einsum('bld,bmd->lbm', s, t)
tf.einsum('...d,de->...e', s, tf.ones((12, 3)))
tf.einsum('bld->bd', s)
tf.image.resize(x, (12, 16))
tf.image.resize(x, size=[x.shape[1] * 2, 5], method='nearest')
ops.image.resize(x, (3, 4))
tf.nn.space_to_depth(x, 2)
tf.nn.depth_to_space(x, 2)
tf.gather(s, [0, 3], axis=1)
tf.gather(x, tf.range(2), axis=2)
ops.take(s, [1, 2, 3], axis=-1)
tf.gather(tf.zeros((50, 7)), tf.cast(v, tf.int32))
tf.one_hot(tf.cast(v, tf.int32), 5)
tf.one_hot(tf.cast(s[..., 0], 'int32'), depth=9)
ops.one_hot(ops.cast(v, 'int32'), 5)
tf.cast(s, tf.float16)
tf.stop_gradient(tf.identity(s))
tf.cumsum(s, axis=1)
tf.roll(x, shift=[1, 1], axis=[1, 2])
tf.reverse(s, axis=[1])
tf.clip_by_value(s, 0.0, 1.0)
tf.broadcast_to(v[:, None], (tf.shape(v)[0], 3, 12))
tf.broadcast_to(tf.zeros((1, 1, 12)), tf.shape(s))
tf.concat([tf.broadcast_to(tf.zeros((1, 1, 12)), [tf.shape(s)[0], 1, s.shape[-1]]), s], axis=1)
tf.zeros((tf.shape(x)[0], 7))
tf.random.normal(shape=(tf.shape(x)[0], 100))
tf.random.uniform([tf.shape(x)[0], 1, 1, 1]) * x
tf.ones_like(s[..., :1])
tf.fill([tf.shape(v)[0], 3], 0.5)
tf.linalg.band_part(tf.ones((s.shape[1], s.shape[1])), -1, 0) * tf.matmul(s, t, transpose_b=True)
s / tf.sqrt(tf.cast(s.shape[-1], tf.float32))
s * s.shape[-1] ** -0.5
tf.reshape(tf.matmul(s, t, transpose_b=True), tf.concat([tf.shape(s)[:-1], [2, 5]], axis=0))
tf.reshape(s, [-1, *s.shape[1:-1], 3, 4])
tf.reshape(s, tf.stack([tf.shape(s)[0], 5, 24]))
tf.reshape(x, (-1, int(np.sqrt(x.shape[1] * 6)), 32))
tf.sequence_mask(tf.cast(v[:, 0], tf.int32), 9)
x.get_shape().as_list()[1] * s
tf.nn.bias_add(s, tf.zeros((12,)))
tf.math.reduce_std(x, axis=(1, 2, 3), keepdims=True) * x
tf.keras.activations.gelu(s)
"""
"""Of the model's inputs; Keras' `Input` has no batch, so that the dimension is left open."""
UNSURE = """
tf.reshape(s, (tf.shape(s)[0] * 2, 5, -1))
tf.reshape(s, (-1, len(str(s.shape)) // 4, 2))
tf.reshape(x, (tf.shape(x)[0] * 6, 8, 4))
tf.tile(s, [tf.shape(s)[0], 1, 1])
tf.nn.conv2d(x, tf.ones([3, 3, 4, 7]), 1, [[0, 0], [1, 1], [1, 1], [0, 0]])
tf.nn.max_pool2d(x, len(str(s.shape)) // 8, 1, "VALID")
tf.nn.conv2d(x, tf.ones([3, 3, 4, 4 + len(str(s.shape)) // 8]), 1, "SAME")
tf.transpose(tf.transpose(s, (2, 1, 0))[:4], (2, 1, 0))
tf.boolean_mask(s, tf.ones((s.shape[0] or 1,)) > 0)
x[::2]
x[1:, :3]
tf.concat([s[:1], t], axis=0)
s[:, tf.constant([1, 2])]
tf.matmul(s, tf.transpose(t, (0, 2, 1)))[0]
"""
"""Of the model's inputs as well: what is told must be right, and not all of it can be told."""
MADE = """
np.zeros((4, 7))
np.random.uniform(-1, 1, [1, 100])
np.random.uniform(size=(2, 5))
np.random.uniform(0, 1, 5)
np.random.normal(0, 1, (3, 4))
np.random.normal(size=[3, 4])
np.random.randn(8, 64)
np.random.rand(2, 3, 4)
np.random.randint(0, 10, (4, 20))
np.random.randint(5, size=(4, 20))
np.random.random((10, 3))
np.random.standard_normal((2, 2))
np.random.RandomState(0).randn(3, 5)
np.random.default_rng(1).normal(size=(3, 5))
np.random.default_rng(1).integers(0, 9, size=(3, 5))
np.ones((3, 4), dtype='float32').astype('int32')
np.full((2, 3), 7)
np.empty([5])
np.eye(4)
np.eye(4, 6)
np.identity(3)
np.linspace(0, 1, 11)
np.linspace(-2, 2)
np.arange(10)
np.arange(2, 11, 3)
np.arange(0, 1, 0.1)
np.array([[1, 2, 3], [4, 5, 6]])
np.array([0.5, 0.25])
np.asarray([[[1], [2]]])
np.zeros_like(np.ones((3, 2)))
np.ones((6, 4)).reshape(-1, 8)
np.ones((6, 4)).reshape(2, 3, 4)
np.ones((6, 4)).T
np.ones((6, 4)).transpose(1, 0)
np.ones((2, 3, 4)).transpose((2, 0, 1))
np.ones((6, 4)).flatten()
np.ones((6, 4))[2]
np.ones((6, 4))[:2, 1:]
np.ones((6, 4))[::4]
np.ones((6, 4)).mean(axis=0)
np.ones((6, 4)).sum(axis=1, keepdims=True)
np.max(np.ones((6, 4)), axis=1)
np.mean(np.ones((6, 4)), axis=-1, keepdims=True)
np.expand_dims(np.ones((6, 4)), 0)
np.concatenate([np.ones((6, 4)), np.ones((2, 4))])
np.concatenate((np.ones((6, 4)), np.ones((6, 2))), axis=1)
np.stack([np.ones((6, 4)), np.ones((6, 4))])
np.tile(np.ones((1, 4)), (3, 2))
np.repeat(np.ones((2, 4)), 3, axis=0)
np.pad(np.ones((2, 4)), ((1, 1), (0, 2)))
np.pad(np.ones((2, 4)), 1)
np.split(np.ones((6, 4)), 3)[0]
np.split(np.ones((6, 4)), [1, 3], axis=1)[1]
np.dot(np.ones((6, 4)), np.ones((4, 3)))
np.matmul(np.ones((2, 6, 4)), np.ones((4, 3)))
np.ones((6, 4)) @ np.ones((4,))
np.einsum('ij,kj->ik', np.ones((6, 4)), np.ones((3, 4)))
np.swapaxes(np.ones((2, 3, 4)), 0, 2)
np.squeeze(np.ones((1, 3, 1)))
np.ones((6, 1)) * np.ones((3,))
np.where(np.ones((6, 1)) > 0, np.zeros((1, 4)), 1)
np.argmax(np.ones((6, 4)), axis=1)
np.take(np.ones((6, 4)), [1, 2], axis=1)
np.sqrt(np.ones((2, 2)))
tf.zeros([4, 7])
tf.ones(shape=(2, 3))
tf.fill([2, 3], 1.0)
tf.eye(5)
tf.eye(3, num_columns=4)
tf.range(10)
tf.range(2, 10)
tf.range(start=0, limit=80, delta=1)
tf.range(0, 9, 2)[:, tf.newaxis]
tf.linspace(0.0, 1.0, 7)
tf.constant([[1, 2], [3, 4], [5, 6]])
tf.constant(0.5, shape=(3, 3))
tf.Variable(tf.zeros((3, 4)))
tf.Variable([[1.0, 2.0]])
tf.random.normal([1, 100])
tf.random.uniform((16, 100), minval=-1, maxval=1)
tf.random.truncated_normal(shape=[2, 2])
tf.random.stateless_uniform((2, 5), seed=(1, 2))
tf.keras.backend.constant([[1.0, 2.0]])
keras.random.normal((4, 5))
keras.random.uniform(shape=(4, 5))
ops.arange(10)
ops.arange(start=0, stop=12, step=1)
ops.zeros((3, 4))
ops.ones((3, 4))
ops.full((2, 2), 1.0)
ops.eye(4)
ops.linspace(0.0, 1.0, 5)
ops.convert_to_tensor([[1.0, 2.0, 3.0]])
ops.array([1, 2, 3])
tf.convert_to_tensor(np.ones((3, 2)))
tf.reduce_sum(tf.ones((3, 4)), axis=0)
tf.argmax(tf.ones((3, 4)))
tf.random.shuffle(tf.range(9))
tf.expand_dims(tf.range(9), 0)
tf.keras.utils.to_categorical([0, 1, 2, 1], num_classes=4)
tf.keras.utils.to_categorical(np.zeros((5,)), 10)
"""
"""Of nothing but sizes and numbers: every dimension is known."""
NUMBERS = """
int(np.sqrt(144))
np.prod((2, 3, 4))
x.shape[1] * x.shape[-1]
int(np.prod(x.shape[1:]))
tf.shape(x)[2] // 2
len(x.shape)
K.int_shape(x)[-1]
ops.shape(x)[1]
x.get_shape().as_list()[3]
x.shape.as_list()[1]
np.arange(12).shape[0]
np.zeros((4, 7)).shape[1]
np.ones((3, 4)).ndim
math.ceil(x.shape[1] / 4)
tf.cast(x.shape[-1], tf.int32)
int(math.log2(x.shape[2]))
"""
"""Whole numbers that sizes are made of."""


def lines(text: str) -> list[str]:
    """Return the expressions of a table."""
    return [line for line in text.splitlines() if line]
