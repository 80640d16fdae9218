"""Switches precision and XLA for scripts that have no option of their own."""

from __future__ import annotations

import os
import re
from typing import Any, Optional

from ..config import Config
from ..core.gaps import Gaps

AUTO_CLUSTERING = ("--tf_xla_auto_jit=2", "--tf_xla_cpu_global_jit")
CLUSTERS = re.compile(r"--tf_xla_auto_jit=(single-gpu\()?(1|2|fusible)\b")
NO_COMMAND_BUFFERS = "--xla_gpu_enable_command_buffer="
# TensorFlow before this one aborts on the flag.
COMMAND_BUFFERS_SINCE = (2, 16)


def set_environment(config: Config) -> None:
    """Set what must stand in the environment before TensorFlow loads."""
    if config.precision == "float32":
        os.environ["NVIDIA_TF32_OVERRIDE"] = "0"
    elif config.precision == "tf32" and os.environ.get("NVIDIA_TF32_OVERRIDE") == "0":
        del os.environ["NVIDIA_TF32_OVERRIDE"]
    flags = [f for f in os.environ.get("TF_XLA_FLAGS", "").split() if config.xla is None or not _is_clustering(f)]
    if config.xla:
        flags += AUTO_CLUSTERING
    if flags or "TF_XLA_FLAGS" in os.environ:
        os.environ["TF_XLA_FLAGS"] = " ".join(flags)


def _is_clustering(flag: str) -> bool:
    return flag.split("=")[0] in ("--tf_xla_auto_jit", "--tf_xla_cpu_global_jit")


def flags_cluster() -> bool:
    """Return whether the environment has XLA cluster every function; TensorFlow reads that once."""
    return bool(CLUSTERS.search(os.environ.get("TF_XLA_FLAGS", "")))


def clusters(tf: Any) -> bool:
    """Return whether XLA clusters every function, not those alone that ask for it."""
    return flags_cluster() or bool(tf.config.optimizer.get_jit())


def version(tf: Any) -> "tuple[int, int]":
    """Return TensorFlow's major and minor version."""
    major, minor = tf.__version__.split(".")[:2]
    return int(major), int(minor)


def on_tensorflow(tf: Any, config: Config) -> None:
    """Set what TensorFlow takes right after its import, before it touches a GPU."""
    if config.precision in ("float32", "tf32"):
        tf.config.experimental.enable_tensor_float_32_execution(config.precision == "tf32")
    if config.profile and version(tf) >= COMMAND_BUFFERS_SINCE:
        flags = os.environ.get("XLA_FLAGS", "")
        if "xla_gpu_enable_command_buffer" not in flags:
            os.environ["XLA_FLAGS"] = (flags + " " + NO_COMMAND_BUFFERS).strip()


def on_keras(keras: Any, config: Config) -> None:
    """Set the Keras policy."""
    if config.precision in ("mixed_float16", "mixed_bfloat16"):
        keras.mixed_precision.set_global_policy(config.precision)


def on_model(model: Any, xla: Optional[bool], gaps: Gaps) -> None:
    """Switch XLA for a model whose train function is about to be made; "auto" of Keras 3 is defeated too."""
    if xla is None or bool(model.__dict__.get("run_eagerly")):
        return
    for name in ("jit_compile", "_jit_compile"):
        try:
            if hasattr(model, name):
                setattr(model, name, xla)
                return
        except Exception as error:
            gaps.add("XLA for fit", error)
    if xla:
        gaps.add("XLA for fit", "this Keras has no jit_compile; auto-clustering is on instead")
