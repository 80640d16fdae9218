"""TensorFlow without Keras: variables, a convolution, `assign_sub`, in a function."""
#: bench only

import tensorflow as tf

filters = tf.Variable(tf.random.normal((3, 3, 3, 8)) * 0.1)
weights = tf.Variable(tf.random.normal((128, 4)) * 0.1)
x, y = tf.random.normal((16, 8, 8, 3)), tf.random.normal((16, 4))


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        h = tf.nn.relu(tf.nn.conv2d(x, filters, 2, "SAME"))  #: - 16x4x4x8x3x3x3: forward, wgrad
        h = tf.reshape(h, (16, 128))
        loss = tf.reduce_mean(tf.square(tf.matmul(h, weights) - y))  #: - 16x128x4: forward, dgrad, wgrad
    for variable, gradient in zip((filters, weights), tape.gradient(loss, (filters, weights))):
        variable.assign_sub(0.01 * gradient)
    return loss


steps = 0
for _ in range(36):
    train_step(x, y)
    steps += 1
print("steps", steps)
