"""A loop whose length the data decide: how often its product runs cannot be known from the graph."""
#: bound

import tensorflow as tf

weights = tf.Variable(tf.random.normal((16, 16)) * 0.1)
x = tf.random.normal((32, 16))


@tf.function
def train_step(x, limit):
    h, count = x, 0.0
    while count < limit:
        h = tf.nn.relu(tf.matmul(h, tf.eye(16)))  #: - 3*32x16x16: forward
        count += 1.0
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(tf.matmul(h, weights)))  #: - 32x16x16: forward, wgrad
    weights.assign_sub(0.01 * tape.gradient(loss, weights))


steps = 0
for _ in range(36):
    train_step(x, tf.constant(2.5))
    steps += 1
print("steps", steps)
