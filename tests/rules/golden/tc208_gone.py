"""Names of TensorFlow 2.1 to 2.15."""

import tensorflow as tf

tf.keras.mixed_precision.experimental.set_policy("mixed_float16")
policy = tf.keras.mixed_precision.Policy("mixed_float16", loss_scale="dynamic")
optimizer = tf.train.experimental.enable_mixed_precision_graph_rewrite(tf.keras.optimizers.SGD())
wrapped = tf.keras.mixed_precision.LossScaleOptimizer(tf.keras.optimizers.SGD())


def step(model, x, y, loss_fn):
    with tf.GradientTape() as tape:
        scaled = wrapped.get_scaled_loss(loss_fn(y, model(x)))
    gradients = wrapped.get_unscaled_gradients(tape.gradient(scaled, model.trainable_variables))
    wrapped.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
