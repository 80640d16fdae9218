"""The forward pass in a tf.function, the tape outside; with argument "ragged" a batch of another size comes last."""

import sys

import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers
model = keras.Sequential([keras.Input((16,)), layers.Dense(32, activation="relu"), layers.Dense(4)])
RAGGED = "ragged" in sys.argv


@tf.function(input_signature=[tf.TensorSpec((None, 16))] if RAGGED else None)
def forward(x):
    return model(x, training=True)


for number in range(8):
    x = tf.ones((5 if RAGGED and number == 7 else 8, 16))
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(forward(x) ** 2)
    for variable, gradient in zip(model.trainable_variables, tape.gradient(loss, model.trainable_variables)):
        variable.assign_sub(0.01 * gradient)
