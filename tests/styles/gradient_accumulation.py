"""A loop that adds up the gradients of several small batches before it applies them, in mixed precision."""

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers, mixed_precision

mixed_precision.set_global_policy("mixed_float16")

MICRO_BATCH = 1024
ACCUMULATE = 8
FEATURES = 1024
CLASSES = 64


def make_classifier(hidden=(4096, 2043, 1024)):
    inputs = keras.Input(shape=(FEATURES,))
    x = inputs
    for units in hidden:
        x = layers.Dense(units, use_bias=False)(x)  # expect: TC101 units 2043 -> 2048
        x = layers.BatchNormalization()(x)
        x = layers.Activation("relu")(x)
    return keras.Model(inputs, layers.Dense(CLASSES, dtype="float32")(x))


model = make_classifier()
optimizer = mixed_precision.LossScaleOptimizer(keras.optimizers.Adam(1e-3))
optimizer.build(model.trainable_variables)
loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
train_loss = keras.metrics.Mean()
gradients = [tf.Variable(tf.zeros_like(v), trainable=False) for v in model.trainable_variables]


@tf.function
def accumulate(x, y):
    with tf.GradientTape() as tape:
        logits = model(x, training=True)
        loss = loss_fn(y, logits)
        scaled_loss = optimizer.scale_loss(loss / ACCUMULATE)
    for total, gradient in zip(gradients, tape.gradient(scaled_loss, model.trainable_variables)):
        total.assign_add(gradient)
    train_loss.update_state(loss)


@tf.function
def apply():
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    for total in gradients:
        total.assign(tf.zeros_like(total))


def train(dataset, epochs=2):
    for epoch in range(epochs):
        train_loss.reset_state()
        for step, (x, y) in enumerate(dataset):
            accumulate(x, y)
            if (step + 1) % ACCUMULATE == 0:
                apply()
        print(f"epoch {epoch}: loss {train_loss.result():.4f}")


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    features = rng.standard_normal((16 * MICRO_BATCH, FEATURES)).astype("float32")
    labels = rng.integers(0, CLASSES, len(features)).astype("int32")
    data = tf.data.Dataset.from_tensor_slices((features, labels)).batch(MICRO_BATCH, drop_remainder=True)
    train(data)
