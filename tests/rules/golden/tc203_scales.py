"""Loss scales: fixed, doubled, ignored, and by hand."""

import tensorflow as tf
from tensorflow.keras import mixed_precision, optimizers

mixed_precision.set_global_policy("mixed_float16")
SCALE = 2.0**10

fixed = mixed_precision.LossScaleOptimizer(optimizers.SGD(), dynamic=False, initial_scale=SCALE)
inner = mixed_precision.LossScaleOptimizer(optimizers.SGD())
doubled = mixed_precision.LossScaleOptimizer(inner)
ignored = mixed_precision.LossScaleOptimizer(optimizers.SGD(loss_scale_factor=256))
right = mixed_precision.LossScaleOptimizer(optimizers.SGD(), initial_scale=SCALE, dynamic_growth_steps=1000)


def on_top(model, x, y, loss_fn):
    with tf.GradientTape() as tape:
        scaled = right.scale_loss(loss_fn(y, model(x)) * 1024.0)
    gradients = tape.gradient(scaled, model.trainable_variables)
    right.apply_gradients(zip(gradients, model.trainable_variables, strict=True))


def by_hand(model, x, y, loss_fn, optimizer):
    with tf.GradientTape() as tape:
        loss = loss_fn(y, model(x))
        scaled_loss = loss * SCALE
    gradients = [g / SCALE for g in tape.gradient(scaled_loss, model.trainable_variables)]
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
