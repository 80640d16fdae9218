"""Two models with a `fit` each: an autoencoder, then a classifier of what its encoder makes, with files in between."""
# ruff: noqa: PTH103, PTH107, PTH123

import json
import os

import numpy as np
from tensorflow import keras
from tensorflow.keras import layers

CODES = 250
x_train = np.random.rand(8192, 4096).astype("float32")
y_train = np.random.randint(0, 1000, 8192)

encoder = keras.Sequential(
    [
        keras.Input((4096,)),
        layers.Dense(CODES, activation="relu"),  # expect: TC101 units 250 -> 256
    ]
)
decoder = keras.Sequential([keras.Input((CODES,)), layers.Dense(4096, activation="sigmoid")])
autoencoder = keras.Sequential([encoder, decoder])
autoencoder.compile(optimizer="adam", loss="mse")
history = autoencoder.fit(x_train, x_train, epochs=20, batch_size=4096, validation_split=0.5)

best = min(history.history["val_loss"])
os.makedirs("checkpoints", exist_ok=True)
autoencoder.save("checkpoints/autoencoder.keras")
with open("checkpoints/history.json", "w") as file:
    json.dump({"val_loss": best}, file)
os.remove("checkpoints/history.json")

codes = encoder.predict(x_train)
assert codes.shape == (8192, CODES)

classifier = keras.Sequential(
    [
        keras.Input((CODES,)),
        layers.Dense(2048, activation="relu"),  # expect: TC101 inputs 250 -> 256
        layers.Dense(1000, activation="softmax"),
    ]
)
classifier.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
classifier.fit(codes, y_train, epochs=10, batch_size=8192)
loss, accuracy = classifier.evaluate(codes, y_train)
print(f"accuracy {accuracy:.3f}")
