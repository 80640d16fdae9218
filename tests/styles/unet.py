"""A U-Net for masks of objects: blocks down and up again, joined by concatenations."""

import numpy as np
import tensorflow as tf
from tensorflow.keras import layers

IMAGE_SIZE = 128
OUTPUT_CLASSES = 3
BATCH_SIZE = 64


def double_conv_block(x, n_filters):
    # Conv2D then ReLU activation, twice
    x = layers.Conv2D(n_filters, 3, padding="same", activation="relu")(x)  # expect: TC101 filters 1018 -> 1024
    return layers.Conv2D(n_filters, 3, padding="same", activation="relu")(x)  # expect: TC101 filters 1018 -> 1024


def downsample_block(x, n_filters):
    f = double_conv_block(x, n_filters)
    p = layers.MaxPool2D(2)(f)
    p = layers.Dropout(0.3)(p)
    return f, p


def upsample_block(x, conv_features, n_filters):
    x = layers.Conv2DTranspose(n_filters, 3, 2, padding="same")(x)
    x = layers.concatenate([x, conv_features])
    x = layers.Dropout(0.3)(x)
    return double_conv_block(x, n_filters)


def build_unet_model():
    inputs = layers.Input(shape=(IMAGE_SIZE, IMAGE_SIZE, 3))
    # encoder: contracting path
    f1, p1 = downsample_block(inputs, 64)
    f2, p2 = downsample_block(p1, 128)
    f3, p3 = downsample_block(p2, 256)
    # bottleneck
    bottleneck = double_conv_block(p3, 1018)
    # decoder: expanding path
    u7 = upsample_block(bottleneck, f3, 256)
    u8 = upsample_block(u7, f2, 128)
    u9 = upsample_block(u8, f1, 64)
    outputs = layers.Conv2D(OUTPUT_CLASSES, 1, padding="same", activation="softmax")(u9)
    return tf.keras.Model(inputs, outputs, name="U-Net")


def load_image(index):
    image = tf.random.stateless_uniform((IMAGE_SIZE, IMAGE_SIZE, 3), seed=[index, 0])
    mask = tf.zeros((IMAGE_SIZE, IMAGE_SIZE, 1), tf.int32)
    return image, mask


unet_model = build_unet_model()
unet_model.compile(optimizer=tf.keras.optimizers.Adam(), loss="sparse_categorical_crossentropy", metrics=["accuracy"])

if __name__ == "__main__":
    train_dataset = tf.data.Dataset.range(640).map(load_image, num_parallel_calls=tf.data.AUTOTUNE)
    train_batches = train_dataset.cache().shuffle(100).batch(BATCH_SIZE, drop_remainder=True).repeat()
    train_batches = train_batches.prefetch(buffer_size=tf.data.AUTOTUNE)
    unet_model.fit(train_batches, epochs=20, steps_per_epoch=10)
    predicted = unet_model.predict(train_batches.take(1))
    print(np.argmax(predicted, axis=-1).shape)
