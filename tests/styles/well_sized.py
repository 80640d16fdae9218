"""Nothing to find: every size is a multiple of 8, the image has three channels, the head ten classes."""

import keras
from keras import layers


def conv_block(x, filters, kernel=3):
    x = layers.Conv2D(filters, kernel, padding="same", use_bias=False)(x)
    x = layers.BatchNormalization()(x)
    return layers.Activation("relu")(x)


def get_model(num_classes=10):
    image = keras.Input(shape=(128, 128, 3))
    x = layers.Rescaling(1.0 / 255)(image)
    x = conv_block(x, 64, 5)
    for filters in (128, 256, 512):
        x = layers.MaxPooling2D(2)(x)
        x = conv_block(x, filters)
    x = layers.Dropout(0.2)(layers.GlobalAveragePooling2D()(x))
    return keras.Model(image, layers.Dense(num_classes, activation="softmax", dtype="float32")(x))
