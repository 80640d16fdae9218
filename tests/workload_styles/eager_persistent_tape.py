"""An eager, persistent tape whose gradient is taken twice: for an encoder and for a head."""
#: bench only

import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers
encoder = keras.Sequential(
    [
        keras.Input((16,)),
        # its own loss alone: the head's gradient is taken for the head's weights
        layers.Dense(32, activation="relu", name="hidden"),  #: encoder/hidden 32x16x32: forward, 2 wgrad
    ],
    name="encoder",
)
head = keras.Sequential(
    [
        keras.Input((32,)),
        layers.Dense(4, name="out"),  #: head/out 32x32x4: forward, 2 dgrad, 2 wgrad
    ],
    name="head",
)
optimizers = [keras.optimizers.SGD(0.01), keras.optimizers.SGD(0.02)]
x, y = tf.random.normal((32, 16)), tf.random.normal((32, 4))
steps = 0
for _ in range(36):
    with tf.GradientTape(persistent=True) as tape:
        loss = tf.reduce_mean(tf.square(head(encoder(x)) - y))
    for optimizer, model in zip(optimizers, (encoder, head)):
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    del tape
    steps += 1
print("steps", steps)
