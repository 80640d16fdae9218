"""The model of TensorFlow's mixed precision guide, with 4090 units."""

import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

inputs = keras.Input(shape=(784,), name="digits")
num_units = 4090
dense1 = layers.Dense(num_units, activation="relu", name="dense_1")  # expect: TC101 units 4090 -> 4096
x = dense1(inputs)
dense2 = layers.Dense(num_units, activation="relu", name="dense_2")  # expect: TC101 units 4090 -> 4096
x = dense2(x)
x = layers.Dense(10, name="dense_logits")(x)
outputs = layers.Activation("softmax", dtype="float32", name="predictions")(x)
model = keras.Model(inputs=inputs, outputs=outputs)
model.compile(loss="sparse_categorical_crossentropy", optimizer=keras.optimizers.RMSprop())

if __name__ == "__main__":
    images = tf.random.uniform((8192, 784))
    labels = tf.zeros((8192,), tf.int32)
    model.fit(images, labels, batch_size=8192, epochs=1)
