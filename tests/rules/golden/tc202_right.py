"""A custom loop as Keras 3 wants it: scale_loss, and apply_gradients unscales."""

import keras
import tensorflow as tf

keras.config.set_dtype_policy("mixed_float16")
optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(1e-3))


@tf.function
def train_step(model, images, labels):
    with tf.GradientTape() as tape:
        loss = keras.losses.sparse_categorical_crossentropy(labels, model(images, training=True))
        scaled = optimizer.scale_loss(loss)
    gradients = tape.gradient(scaled, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return loss
