"""A loop of its own with tf.function; a batch of the data set; a model that a class builds."""

import tensorflow as tf


class Trainer:
    def __init__(self, units=(128, 63), classes: int = 10):
        self.units = units
        self.classes = classes
        self.model = self.build()

    def build(self):
        keras = tf.keras
        model = keras.models.Sequential([keras.layers.InputLayer((20,))])
        for number, units in enumerate(self.units):
            model.add(keras.layers.Dense(units, activation="relu", name=f"hidden_{number}"))
        model.add(keras.layers.Dense(self.classes))
        return model

    @tf.function
    def step(self, x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.keras.losses.sparse_categorical_crossentropy(y, self.model(x), from_logits=True))
        return tape.gradient(loss, self.model.trainable_variables)


trainer = Trainer()
model = trainer.model
if __name__ == "__main__":
    data = tf.data.Dataset.from_tensor_slices((tf.zeros((64, 20)), tf.zeros((64,), tf.int32))).batch(32)
    for x, y in data:
        trainer.step(x, y)
