"""A custom loop in float16 that scales nothing, and a train_step that Keras 3 divides by the scale."""

import tensorflow as tf
from tensorflow import keras

policy = keras.mixed_precision.Policy("mixed_float16")
keras.mixed_precision.set_global_policy(policy)
optimizer = keras.optimizers.Adam(1e-3)


@tf.function
def train_step(model, images, labels):
    with tf.GradientTape() as tape:
        loss = keras.losses.sparse_categorical_crossentropy(labels, model(images, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return loss


class Regression(keras.Model):
    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(y=y, y_pred=self(x, training=True))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        return {"loss": loss}


def saliency(model, image):
    with tf.GradientTape() as tape:
        tape.watch(image)
        score = tf.reduce_max(model(image))
    return tape.gradient(score, image)
