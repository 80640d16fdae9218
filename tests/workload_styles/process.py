"""A script that trains in a process that `multiprocessing` starts: the probe sees the script's own process alone."""
#: bench only
#: cold
#: unknown steps, products
#: said no-tensorflow

import multiprocessing


def train(queue):
    import tensorflow as tf

    keras, layers = tf.keras, tf.keras.layers
    model = keras.Sequential([keras.Input((16,)), layers.Dense(32, activation="relu"), layers.Dense(4)])
    optimizer = keras.optimizers.SGD(0.01)
    x, y = tf.random.normal((32, 16)), tf.random.normal((32, 4))

    @tf.function
    def train_step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))

    steps = 0
    for _ in range(36):
        train_step(x, y)
        steps += 1
    queue.put(steps)


if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    child = context.Process(target=train, args=(queue,))
    child.start()
    steps = queue.get()
    child.join()
    print("steps", steps)
