"""A Sequential model with a module's constants, and one that grows by add()."""

import tensorflow as tf
from tensorflow.keras import layers
from tensorflow.keras.layers import Dense as D
from tensorflow.keras.models import Sequential

HIDDEN = 7 * 7 * 63
CLASSES = 10
KERNEL = (3, 3)

model = Sequential(
    [
        tf.keras.Input(shape=(28, 28, 1)),
        layers.Conv2D(32, KERNEL, activation="relu"),
        layers.MaxPool2D(),
        layers.Conv2D(filters=2 * 32, kernel_size=KERNEL, padding="same"),
        layers.Flatten(),
        D(HIDDEN),
        layers.Dropout(0.5),
        D(CLASSES, activation=tf.nn.softmax, name="head"),
    ]
)

grown = tf.keras.Sequential()
grown.add(tf.keras.Input((HIDDEN // 7,)))
width = 512
while_width = width
for _ in range(3):
    grown.add(D(width, activation="relu"))
    width //= 2
grown.add(D(1))
