"""Depthwise and separable convolutions, widths from arithmetic and a named tuple."""
# ruff: noqa: F403, F405

from typing import NamedTuple

from keras import Input, Model
from keras.layers import *


class Stage(NamedTuple):
    width: int
    stride: int = 1


STAGES = (Stage(32, 2), Stage(62), Stage(width=128, stride=2))
ALPHA = 0.75


def scaled(width, divisor=8):
    return max(divisor, int(width * ALPHA))


inputs = Input(shape=(96, 96, 3))
x = Rescaling(1 / 255)(inputs)
x = ZeroPadding2D(((0, 1), (0, 1)))(x)
for stage in STAGES:
    x = DepthwiseConv2D(3, strides=stage.stride, padding="same", depth_multiplier=1)(x)
    x = Conv2D(scaled(stage.width), 1, use_bias=False)(x)
    x = BatchNormalization()(x)
    x = Activation("relu")(x)
x = SeparableConv2D(100, (3, 3), padding="same")(x)
x = Conv2D(200, 3, groups=4)(x)
x = GlobalAveragePooling2D(keepdims=True)(x)
x = Flatten()(x)
model = Model(inputs=inputs, outputs=Dense(7, activation="softmax")(x))
