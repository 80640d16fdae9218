"""Convolutions of every kind, and the products of EinsumDense, Attention and Dot."""

import numpy as np
import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers
image = keras.Input((8, 8, 4))
x = layers.Conv2D(8, 3, padding="same", name="plain")(image)
x = layers.DepthwiseConv2D(3, padding="same", name="depthwise")(x)
x = layers.SeparableConv2D(8, 3, padding="same", name="separable")(x)
x = layers.Conv2DTranspose(8, 3, strides=2, padding="same", name="transpose")(x)
x = layers.Conv2D(8, 3, strides=2, padding="same", name="strided")(x)
if tuple(map(int, tf.__version__.split(".")[:2])) >= (2, 12):  # older TensorFlow has no grouped gradient on a CPU
    x = layers.Conv2D(8, 3, padding="same", groups=2, name="grouped")(x)
y = layers.Conv1D(8, 3, padding="same", name="line")(layers.Reshape((8, 64))(x))
y = layers.Dense(8, name="dense")(y)
y = getattr(layers, "EinsumDense", layers.experimental.EinsumDense if hasattr(layers, "experimental") else None)(
    "abc,cd->abd", output_shape=(8, 8), name="einsum"
)(y)
z = layers.Attention(name="attention")([y, y])
z = layers.Dot(axes=2, name="dot")([z, y])
v = layers.Conv3D(4, (3, 3, 1), padding="same", name="volume")(layers.Reshape((8, 8, 1, 8))(x))
joined = layers.Concatenate()([layers.Flatten()(z), layers.Flatten()(v)])
model = keras.Model(image, layers.Dense(3, name="out")(joined))
model.compile("sgd", "mse")
rng = np.random.RandomState(0)
model.fit(rng.rand(64, 8, 8, 4).astype("float32"), rng.rand(64, 3).astype("float32"), batch_size=8, epochs=2, verbose=0)
