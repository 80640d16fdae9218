"""A function out of a SavedModel, trained further: its ops were imported, never traced here."""

import tempfile

import tensorflow as tf


class Module(tf.Module):
    def __init__(self):
        self.first = tf.Variable(tf.random.normal((16, 32)) * 0.1)
        self.second = tf.Variable(tf.random.normal((32, 16)) * 0.1)

    @tf.function(input_signature=[tf.TensorSpec((None, 16))])
    def __call__(self, x):
        return tf.matmul(tf.nn.relu(tf.matmul(x, self.first)), self.second)


folder = tempfile.mkdtemp()
tf.saved_model.save(Module(), folder)
loaded = tf.saved_model.load(folder)
top = tf.Variable(tf.random.normal((16, 4)))
variables = [loaded.first, loaded.second, top]


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((tf.matmul(loaded(x), top) - y) ** 2)
    for variable, gradient in zip(variables, tape.gradient(loss, variables)):
        variable.assign_sub(0.01 * gradient)
    return loss


for _ in range(8):
    train_step(tf.ones((8, 16)), tf.ones((8, 4)))
