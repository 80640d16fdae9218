"""Keras' fit in its forms: functional (nested model, shared layer), subclassed, sequential, own train_step, ..."""

import sys

import numpy as np
import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers
MODE = sys.argv[1] if len(sys.argv) > 1 else "functional"
rng = np.random.RandomState(0)
ROWS = {"ragged": 83}.get(MODE, 64)  # 83 rows leave a last batch of 3
images = rng.rand(ROWS, 12, 12, 1).astype("float32")
labels = rng.randint(0, 10, ROWS)


def functional():
    image = keras.Input((12, 12, 1))
    convolutions = [layers.Conv2D(8, 3, activation="relu"), layers.MaxPool2D(), layers.Conv2D(16, 3, name="deep")]
    encoder = keras.Sequential(convolutions, name="encoder")
    shared = layers.Dense(24, activation="relu", name="shared")
    x = layers.Dense(24, name="before")(layers.Flatten()(encoder(image)))
    x = layers.Dense(10)(shared(shared(x)))
    return keras.Model(image, layers.Activation("softmax", dtype="float32")(x), name="net")


def sequential():
    return keras.Sequential(
        [
            keras.Input((12, 12, 1)),
            layers.Flatten(),
            layers.Dense(32, activation="relu"),
            layers.Dense(10, activation="softmax", dtype="float32"),
        ]
    )


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.conv, self.flatten = layers.Conv2D(8, 3, activation="relu"), layers.Flatten()
        self.blocks = [layers.Dense(24, activation="relu") for _ in range(3)]
        self.out = layers.Dense(10, activation="softmax", dtype="float32")

    def call(self, x):
        x = self.flatten(self.conv(x))
        for block in self.blocks:
            x = block(x)
        return self.out(x)


class OwnStep(Subclassed):
    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            y_pred = self(x, training=True)
            loss = tf.reduce_mean(keras.losses.sparse_categorical_crossentropy(y, y_pred))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables))
        return {"loss": loss}


KINDS = {"sequential": sequential, "ragged": sequential, "subclassed": Subclassed, "own_step": OwnStep}
if MODE == "mixed":
    old = tuple(map(int, tf.__version__.split(".")[:2])) < (2, 6)  # no bfloat16 convolution on the CPU
    keras.mixed_precision.set_global_policy("mixed_float16" if old else "mixed_bfloat16")
model = KINDS.get(MODE, functional)()
options = {}
if tuple(map(int, tf.__version__.split(".")[:2])) >= (2, 6):
    options["jit_compile"] = MODE == "jit"
model.compile("adam", "sparse_categorical_crossentropy", **options)
if MODE == "train_on_batch":
    for _ in range(8):
        model.train_on_batch(images[:8], labels[:8])
else:
    model.fit(images, labels, batch_size=8, epochs=2, verbose=0)
if MODE == "mixed":
    keras.mixed_precision.set_global_policy("float32")
