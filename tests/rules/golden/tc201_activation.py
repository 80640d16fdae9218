"""A last activation of its own, without a dtype, under bfloat16: a note, and an edit."""

from keras import Input, Sequential, layers, mixed_precision

mixed_precision.set_global_policy("mixed_bfloat16")
model = Sequential([Input((32, 32, 3)), layers.Conv2D(8, 3), layers.Flatten(), layers.Dense(8), layers.Softmax()])
