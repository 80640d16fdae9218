"""Transfer learning: a head on a frozen base, then all of it compiled again and fine-tuned: two phases."""
#: bench only

import numpy as np
import tensorflow as tf

keras, layers = tf.keras, tf.keras.layers
base = keras.Sequential(
    [
        keras.Input((8, 8, 3)),
        # frozen: forward alone. Fine-tuned: the gradient of the images is dead.
        #: [phase 0] whole/base/conv 16x8x8x8x3x3x3: forward
        #: [phase 1] whole/base/conv 16x8x8x8x3x3x3: forward, wgrad
        layers.Conv2D(8, 3, padding="same", activation="relu", name="conv"),
        #: [phase 0] whole/base/conv_b 16x4x4x16x3x3x8: forward
        #: [phase 1] whole/base/conv_b 16x4x4x16x3x3x8: forward, dgrad, wgrad
        layers.Conv2D(16, 3, strides=2, padding="same", activation="relu", name="conv_b"),
        layers.GlobalAveragePooling2D(name="mean"),  #: whole/base/mean: nothing
    ],
    name="base",
)
base.trainable = False
inputs = keras.Input((8, 8, 3))
h = base(inputs, training=False)
# with the base frozen nothing needs the gradient of its features
#: [phase 0] whole/head 16x16x4: forward, wgrad
#: [phase 1] whole/head 16x16x4: forward, dgrad, wgrad
outputs = layers.Dense(4, name="head")(h)
model = keras.Model(inputs, outputs, name="whole")
rng = np.random.RandomState(0)
x, y = rng.rand(192, 8, 8, 3).astype("float32"), rng.rand(192, 4).astype("float32")

model.compile(keras.optimizers.Adam(1e-3), "mse")
model.fit(x, y, batch_size=16, epochs=1, verbose=0)
first = int(model.optimizer.iterations.numpy())
base.trainable = True
model.compile(keras.optimizers.Adam(1e-5), "mse")
model.fit(x, y, batch_size=16, epochs=3, validation_data=(x[:32], y[:32]), verbose=0)
print("steps", first, int(model.optimizer.iterations.numpy()))
