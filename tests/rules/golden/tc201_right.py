"""The same with the softmax split off, in float32: nothing to say."""

import tensorflow as tf
from tensorflow.keras import layers

tf.keras.mixed_precision.set_global_policy("mixed_float16")

model = tf.keras.Sequential(
    [
        tf.keras.Input((784,)),
        layers.Dense(1024, activation="relu"),
        layers.Dense(10),
        layers.Activation("softmax", dtype="float32"),
    ]
)
model.compile("adam", "sparse_categorical_crossentropy")
