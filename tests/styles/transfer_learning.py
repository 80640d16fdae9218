"""A classifier of images on a frozen backbone, first its head alone, then fine-tuned with a small rate."""

import keras
import numpy as np
from keras import layers

IMG_SIZE = (224, 224)
IMG_SHAPE = (*IMG_SIZE, 3)
BATCH_SIZE = 64
NUM_CLASSES = 12

data_augmentation = keras.Sequential(
    [
        layers.RandomFlip("horizontal"),
        layers.RandomRotation(0.2),
    ],
    name="augmentation",
)


def build_classifier(weights=None):
    base_model = keras.applications.MobileNetV2(input_shape=IMG_SHAPE, include_top=False, weights=weights)
    base_model.trainable = False

    inputs = keras.Input(shape=IMG_SHAPE)
    x = data_augmentation(inputs)
    x = layers.Rescaling(1.0 / 127.5, offset=-1)(x)
    x = base_model(x, training=False)
    x = layers.Flatten()(x)
    x = layers.Dropout(0.2)(x)
    x = layers.Dense(2049, activation="relu")(x)  # expect: TC101 units 2049 -> 2056
    x = layers.Dropout(0.2)(x)
    outputs = layers.Dense(NUM_CLASSES, activation="softmax")(x)
    return keras.Model(inputs, outputs), base_model


def load_images(count=640):
    images = np.zeros((count, *IMG_SHAPE), dtype="uint8")
    labels = np.arange(count) % NUM_CLASSES
    return images, labels


model, base_model = build_classifier()
model.compile(
    optimizer=keras.optimizers.Adam(learning_rate=1e-4),
    loss=keras.losses.SparseCategoricalCrossentropy(),
    metrics=["accuracy"],
)

if __name__ == "__main__":
    images, labels = load_images()
    history = model.fit(images, labels, batch_size=BATCH_SIZE, epochs=5, validation_split=0.2)

    # Fine-tune the last blocks of the backbone.
    base_model.trainable = True
    for layer in base_model.layers[:100]:
        layer.trainable = False
    model.compile(
        optimizer=keras.optimizers.RMSprop(learning_rate=1e-5),
        loss=keras.losses.SparseCategoricalCrossentropy(),
        metrics=["accuracy"],
    )
    model.fit(images, labels, batch_size=BATCH_SIZE, epochs=5 + len(history.epoch), initial_epoch=len(history.epoch))
    model.save("classifier.keras")
