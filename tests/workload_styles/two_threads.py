"""Two models, each trained by a thread of its own: the steps are those of the thread that trains first."""
#: said threads train at once: the steps are 40 updates, of one thread at a time, and another made 30 beside them

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
begun = threading.Event()


class Trainer(threading.Thread):
    def __init__(self, model, steps):
        super().__init__()
        self.model, self.steps, self.counted = model, steps, 0
        self.optimizer = keras.optimizers.SGD(0.01)

    @tf.function
    def train_step(self, x, y):
        variables = self.model.trainable_variables
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self.model(x, training=True) - y))
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))

    def run(self):
        for _ in range(self.steps):
            self.train_step(x, y)
            self.counted += 1
            if self.counted == 3:
                begun.set()


trainers = [Trainer(first, 40), Trainer(second, 30)]
trainers[0].start()
begun.wait()
trainers[1].start()
for trainer in trainers:
    trainer.join()
print("steps", trainers[0].counted)
