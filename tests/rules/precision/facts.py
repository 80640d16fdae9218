"""Print as JSON the facts of TensorFlow and Keras 3 that the precision rules rely on."""

from __future__ import annotations

import json
import sys
from typing import Any

import keras
import numpy as np
import tensorflow as tf

SCALE = 8.0
SGD = 0.01
IN, OUT = np.ones((4, 8), "float32"), np.zeros((4, 1), "float32")


class Stepped(keras.Model):  # type: ignore[misc]
    """A model with a train_step of its own, which scales the loss or not."""

    def __init__(self, scale: bool) -> None:
        super().__init__()
        self.dense = keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")
        self.scale = scale

    def call(self, x: Any) -> Any:
        """Return the product."""
        return self.dense(x)

    def train_step(self, data: Any) -> dict[str, Any]:
        """Take one step."""
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(x=x, y=y, y_pred=self(x, training=True))
            loss = self.optimizer.scale_loss(loss) if self.scale else loss
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        return {"loss": loss}


def update(scale: bool, optimizer: Any) -> float:
    """Return what one step adds to a weight."""
    model = Stepped(scale)
    model.compile(optimizer, "mse")
    model(IN)
    before = model.dense.kernel.numpy().copy()
    model.fit(IN, OUT, epochs=1, verbose=0)
    return float((model.dense.kernel.numpy() - before)[0, 0])


def raises(function: Any) -> str | None:
    """Return the name of what a call raises; None where it does not."""
    try:
        function()
    except (ValueError, TypeError, AttributeError) as error:
        return type(error).__name__
    return None


def facts() -> dict[str, Any]:
    """Return what was measured."""
    wrap, sgd = keras.optimizers.LossScaleOptimizer, keras.optimizers.SGD
    early = keras.layers.Dense(4)
    keras.config.set_dtype_policy("mixed_float16")
    half = tf.constant([0.0, 1.0], tf.float16)
    return {
        "keras": keras.__version__,
        "early": early.compute_dtype,
        "scaled": update(True, wrap(sgd(SGD), initial_scale=SCALE)),
        "unscaled": update(False, wrap(sgd(SGD), initial_scale=SCALE)),
        "nested": update(True, wrap(wrap(sgd(SGD), initial_scale=SCALE), initial_scale=SCALE)),
        "initial_scale": wrap(sgd(SGD)).initial_scale,
        "inner_factor": wrap(sgd(SGD, loss_scale_factor=64.0)).inner_optimizer.loss_scale_factor,
        "static": raises(lambda: wrap(sgd(SGD), dynamic=False)),
        "with_scale": raises(lambda: wrap(sgd(SGD), loss_scale="dynamic")),
        "policy_scale": raises(lambda: keras.mixed_precision.Policy("mixed_float16", loss_scale=128)),
        "get_scaled_loss": raises(lambda: wrap(sgd(SGD)).get_scaled_loss(1.0)),
        "get_unscaled_gradients": raises(lambda: wrap(sgd(SGD)).get_unscaled_gradients([])),
        "experimental": raises(lambda: tf.keras.mixed_precision.experimental),
        "rewrite": raises(lambda: tf.compat.v1.mixed_precision.enable_mixed_precision_graph_rewrite(sgd(SGD))),
        "loss_dtype": keras.losses.MeanSquaredError()(half, half).dtype.name,
    }


if __name__ == "__main__":
    json.dump(facts(), sys.stdout)
