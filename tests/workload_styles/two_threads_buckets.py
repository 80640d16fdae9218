"""Two threads that train one model by one function, on other lengths: a step runs what its own thread calls."""
#: said threads train at once, with 43, 40 updates: the steps are 43 of these, of one thread at a time

import threading

import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers
model = keras.Sequential(
    [
        keras.Input((None, 8)),
        #: [shape 0] net/hidden 16x12x8x32: forward, wgrad
        #: [shape 1] net/hidden 16x5x8x32: forward, wgrad
        layers.Dense(32, activation="relu", name="hidden"),
        #: [shape 0] net/out 16x12x32x4: forward, dgrad, wgrad
        #: [shape 1] net/out 16x5x32x4: forward, dgrad, wgrad
        layers.Dense(4, name="out"),
    ],
    name="net",
)
optimizer = keras.optimizers.SGD(0.01)
if hasattr(optimizer, "build"):
    optimizer.build(model.trainable_variables)
begun, side_by_side = threading.Event(), threading.Barrier(2)


@tf.function(input_signature=[tf.TensorSpec([None, None, 8])])
def train_step(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(x, training=True)))
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))


def train(lengths):
    for length in lengths:
        side_by_side.wait()
        train_step(tf.ones((16, length, 8)))
    side_by_side.wait()


shapes = [step % 2 for step in range(43)]
first = [(12, 5)[shape] for shape in shapes]
for length in first[:3]:
    train_step(tf.ones((16, length, 8)))
other = threading.Thread(target=train, args=([70] * 40,))
other.start()
train(first[3:])
other.join()
print("shapes", *shapes)
print("steps", len(shapes))
