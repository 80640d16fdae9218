"""A network described by a dictionary, as configuration files do."""

import keras

CONFIG = {
    "image": 64,
    "stem": 64,
    "stages": [
        {"filters": 128, "blocks": 2},
        {"filters": 252, "blocks": 2},  # 252 is a multiple of 4 and none of 8
        {"filters": 510, "blocks": 1},  # 510 is even
    ],
    "classes": 100,
}


def conv(x, filters, stride=1):
    x = keras.layers.Conv2D(filters, 3, strides=stride, padding="same")(x)  # expect: TC101 filters 510 -> 512
    x = keras.layers.BatchNormalization()(x)
    return keras.layers.ReLU()(x)


def build_model(config=CONFIG):
    inputs = keras.Input((config["image"], config["image"], 3))
    x = keras.layers.Conv2D(config["stem"], 7, strides=2, padding="same")(inputs)
    for stage in config["stages"]:
        for block in range(stage["blocks"]):
            x = conv(x, stage["filters"], stride=2 if block == 0 else 1)
    x = keras.layers.GlobalAveragePooling2D()(x)
    return keras.Model(inputs, keras.layers.Dense(config["classes"], activation="softmax")(x))
