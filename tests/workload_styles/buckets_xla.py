"""Sentences in buckets of lengths under one input_signature, compiled by XLA: the trace alone tells the sizes."""
#: fails on 2.4

import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers
table = tf.Variable(tf.random.normal((50, 8)), name="table")
model = keras.Sequential(
    [
        keras.Input((None, 8)),
        #: [shape 0] net/hidden 16x64x8x32: forward, dgrad, wgrad
        #: [shape 1] net/hidden 16x8x8x32: forward, dgrad, wgrad
        #: [shape 2] net/hidden 5x16x8x32: forward, dgrad, wgrad
        layers.Dense(32, activation="relu", name="hidden"),
        #: [shape 0] net/out 16x64x32x4: forward, dgrad, wgrad
        #: [shape 1] net/out 16x8x32x4: forward, dgrad, wgrad
        #: [shape 2] net/out 5x16x32x4: forward, dgrad, wgrad
        layers.Dense(4, name="out"),
    ],
    name="net",
)
variables = [table, *model.trainable_variables]
optimizer = keras.optimizers.Adam(0.01)
if hasattr(optimizer, "build"):
    optimizer.build(variables)


@tf.function(jit_compile=True, input_signature=[tf.TensorSpec([None, None], tf.int32)])
def train_step(words):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(tf.nn.embedding_lookup(table, words), training=True)))
    optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))


shapes = [(0, 1, 1, 2, 1)[step * 3 % 5] for step in range(45)]
for shape in shapes:
    train_step(tf.ones(((16, 64), (16, 8), (5, 16))[shape], tf.int32))
print("shapes", *shapes)
print("steps", len(shapes))
