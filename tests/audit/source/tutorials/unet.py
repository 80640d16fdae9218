"""A U-Net whose skips are cropped and joined by functions; the input is resized by one, too."""

import keras
from keras import layers
from tensorflow.keras import backend as K


def double_conv(x, filters):
    for _ in range(2):
        x = layers.Conv2D(filters, 3, activation="relu")(x)
    return x


def crop_to(x, like):
    height, width = like.shape[1], like.shape[2]
    top, left = (x.shape[1] - height) // 2, (x.shape[2] - width) // 2
    return x[:, top : top + height, left : left + width, :]


inputs = keras.Input((200, 200, 3))
x = keras.ops.image.resize(inputs, (188, 188))
skips = []
for filters in (30, 60):
    x = double_conv(x, filters)
    skips.append(x)
    x = layers.MaxPooling2D()(x)
x = double_conv(x, 124)
for filters, skip in zip((60, 30), reversed(skips)):
    x = layers.Conv2DTranspose(filters, 2, strides=2)(x)
    x = keras.ops.concatenate([crop_to(skip, x), x], axis=-1)
    x = double_conv(x, filters)
squeezed = layers.Dense(K.int_shape(x)[-1] // 2, activation="relu")(keras.ops.mean(x, axis=[1, 2], keepdims=True))
x = x * layers.Dense(x.shape[-1], activation="sigmoid")(squeezed)
outputs = layers.Conv2D(3, 1)(x)
model = keras.Model(inputs, outputs)
