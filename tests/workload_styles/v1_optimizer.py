"""An optimizer of `compat.v1` with `tf.gradients`, in a function."""

import tensorflow as tf

weights = tf.Variable(tf.random.normal((16, 32)) * 0.1)
out = tf.Variable(tf.random.normal((32, 4)) * 0.1)
optimizer = tf.compat.v1.train.GradientDescentOptimizer(0.01)
x, y = tf.random.normal((32, 16)), tf.random.normal((32, 4))


@tf.function
def train_step(x, y):
    h = tf.nn.relu(tf.matmul(x, weights))  #: - 32x16x32: forward, wgrad
    loss = tf.reduce_mean(tf.square(tf.matmul(h, out) - y))  #: - 32x32x4: forward, dgrad, wgrad
    optimizer.apply_gradients(zip(tf.gradients(loss, [weights, out]), [weights, out]))
    return loss


steps = 0
for _ in range(36):
    train_step(x, y)
    steps += 1
print("steps", steps)
