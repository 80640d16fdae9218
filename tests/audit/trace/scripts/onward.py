# ruff: noqa
"""Models trained one after the other, with all that a script does in between; nothing of it may change anything."""

import os

import keras
import numpy as np
from keras import layers

HERE = os.path.dirname(os.path.abspath(__file__))
x, y = np.zeros((512, 96), "float32"), np.zeros((512,), "int32")


def make(units):
    model = keras.Sequential([keras.Input((96,)), layers.Dense(units), layers.Dense(16, activation="softmax")])
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


first = make(512)
saver = keras.callbacks.ModelCheckpoint(os.path.join(HERE, "written.keras"))
history = first.fit(x, y, batch_size=64, epochs=3, validation_split=0.2, callbacks=[saver])
print("loss %.3f" % history.history["val_loss"][-1], len(history.epoch), history.history["accuracy"])
loss, accuracy = first.evaluate(x, y)
named = first.evaluate(x, y, return_dict=True)
assert sorted(named) == ["accuracy", "loss"], named
assert first.predict(x).shape == (512, 16)
first.save(os.path.join(HERE, "written.keras"))
first.save_weights(os.path.join(HERE, "written.weights.h5"))
again = keras.models.load_model(os.path.join(HERE, "written.keras"))
assert again is first
with open(os.path.join(HERE, "written.txt"), "w") as file:
    file.write("%.3f" % accuracy)
first.fit(x, y, batch_size=64)  # the same step
make(512).fit(x, y, batch_size=64)  # another model, the same sizes
os.remove(os.path.join(HERE, "onward.py"))
second = make(4090)
second.fit(x, y, batch_size=32)
