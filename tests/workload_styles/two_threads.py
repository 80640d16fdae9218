"""Two models, each trained by a thread of its own: the steps are those of the thread that trains first."""
#: said threads train at once, with 40, 37 updates: the steps are 40 of these, of one thread at a time

import threading

import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers
first = keras.Sequential(
    [
        keras.Input((16,)),
        layers.Dense(32, activation="relu", name="hidden"),  #: first/hidden 32x16x32: forward, wgrad
        layers.Dense(4, name="out"),  #: first/out 32x32x4: forward, dgrad, wgrad
    ],
    name="first",
)
# no step has products of these
#: second/hidden: nothing
#: second/out: nothing
second = keras.Sequential(
    [
        keras.Input((16,)),
        layers.Dense(64, activation="relu", name="hidden"),
        layers.Dense(4, name="out"),
    ],
    name="second",
)
x, y = tf.random.normal((32, 16)), tf.random.normal((32, 4))
begun, side_by_side = threading.Event(), threading.Barrier(2)


class Trainer(threading.Thread):
    def __init__(self, model, alone):
        super().__init__()
        self.model, self.alone, self.counted = model, alone, 0
        self.optimizer = keras.optimizers.SGD(0.01)

    @tf.function
    def train_step(self, x, y):
        variables = self.model.trainable_variables
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self.model(x, training=True) - y))
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))

    def train(self, steps):
        for _ in range(steps):
            self.train_step(x, y)
            self.counted += 1

    def run(self):
        self.train(self.alone)
        begun.set()
        for _ in range(37):
            side_by_side.wait()
            self.train(1)
        side_by_side.wait()


trainers = [Trainer(first, alone=3), Trainer(second, alone=0)]
trainers[0].start()
begun.wait()
trainers[1].start()
for trainer in trainers:
    trainer.join()
print("steps", trainers[0].counted)
