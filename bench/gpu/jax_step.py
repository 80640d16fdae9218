"""Trace a training step of JAX: ``python jax_step.py PRECISION UNITS OUT.xplane.pb``; bfloat16, tf32 or float32.

Two convolutions and a perceptron, whose units may be odd. XLA puts most of it into command buffers (CUDA graphs).
"""

from __future__ import annotations

import glob
import shutil
import sys
import tempfile
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

IMAGES, SIDE, STEPS = 1024, 32, 6


def main(precision: str, units: int, out: str) -> None:
    dtype = jnp.bfloat16 if precision == "bfloat16" else jnp.float32
    jax.config.update("jax_default_matmul_precision", "highest" if precision == "float32" else "default")
    draw = np.random.default_rng(0)
    shapes = {
        "c1": (3, 3, 3, 64),
        "c2": (3, 3, 64, 128),
        "d1": (128 * 64, units),
        "d2": (units, units),
        "d3": (units, 10),
    }
    weights = {name: jnp.asarray(draw.normal(size=shape) * 0.02, jnp.float32) for name, shape in shapes.items()}
    images = jnp.asarray(draw.normal(size=(IMAGES, SIDE, SIDE, 3)), jnp.float32)
    labels = jnp.asarray(draw.integers(0, 10, IMAGES))

    def convolved(x: Any, kernel: Any) -> Any:
        numbers = ("NHWC", "HWIO", "NHWC")
        return jax.nn.relu(jax.lax.conv_general_dilated(x, kernel, (2, 2), "SAME", dimension_numbers=numbers))

    def loss(weights: Any, x: Any, y: Any) -> Any:
        w, x = jax.tree.map(lambda v: v.astype(dtype), weights), x.astype(dtype)
        x = convolved(convolved(x, w["c1"]), w["c2"]).reshape(len(x), -1)
        x = jax.nn.gelu(jax.nn.gelu(x @ w["d1"]) @ w["d2"])
        logits = (x @ w["d3"]).astype(jnp.float32)
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], 1).mean()

    @jax.jit  # type: ignore[untyped-decorator]
    def train_step(weights: Any, x: Any, y: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(weights, x, y)
        return jax.tree.map(lambda w, g: w - 1e-3 * g, weights, gradients), value

    for _ in range(4):
        weights, value = train_step(weights, images, labels)
    value.block_until_ready()
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            for number in range(STEPS):
                with jax.profiler.StepTraceAnnotation("train", step_num=number):
                    weights, value = train_step(weights, images, labels)
                    value.block_until_ready()
        shutil.copy(sorted(glob.glob(f"{folder}/**/*.xplane.pb", recursive=True))[-1], out)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
