"""An encoder and decoder with skips, built by loops over lists."""
# ruff: noqa: B905

import tensorflow as tf

L = tf.keras.layers
WIDTHS = [16, 32, 60]


def double(x, filters):
    for _ in range(2):
        x = L.Conv2D(filters, 3, padding="same", activation="relu")(x)
    return x


inputs = tf.keras.Input((64, 64, 3))
x, skips = inputs, []
for filters in WIDTHS:
    x = double(x, filters)
    skips.append(x)
    x = L.MaxPooling2D(2)(x)
x = double(x, 2 * WIDTHS[-1])
for filters, skip in zip(reversed(WIDTHS), reversed(skips)):
    x = L.Conv2DTranspose(filters, 2, strides=2, padding="same")(x)
    x = L.concatenate([x, skip])
    x = double(x, filters)
model = tf.keras.Model(inputs, L.Conv2D(1, 1, activation="sigmoid")(x))
