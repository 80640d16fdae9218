"""Switches precision and XLA for scripts that have no option of their own, and records how the script computes.

That is Keras' policy, those of its layers, outputs in 16 bits, XLA's clustering, and whether TF32 is off.
"""

from __future__ import annotations

import os
import re
from typing import Any, Dict, List, Optional, Set

from ..config import Config
from ..core.gaps import Gaps
from .hooks.layers import CalledLayer, LayerHooks

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


def tf32_off(tf: Any) -> bool:
    """Return whether float32 may not run as TF32: TensorFlow is told so, or its libraries by their environment."""
    if os.environ.get("NVIDIA_TF32_OVERRIDE") == "0":
        return True
    return not tf.config.experimental.tensor_float_32_execution_enabled()


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


DEFAULT = "float32"
HALF = ("float16", "bfloat16")
PROBABILITIES = ("softmax", "sigmoid")
REWRITE = "TF_ENABLE_AUTO_MIXED_PRECISION"  # TensorFlow's graph rewrite, of NVIDIA's builds and of TensorFlow


class PolicyRecord:
    """Listens to the calls of layers, and asks TensorFlow and Keras at the end.

    Args:
        hooks: on the calls of layers.
        gaps: takes what fails.
        asked: the policy that tcprobe was asked to set, None where it sets none.
        xla: whether tcprobe was asked for XLA, None where it changes nothing.
    """

    def __init__(self, hooks: LayerHooks, gaps: Gaps, asked: Optional[str], xla: Optional[bool] = None) -> None:
        self._gaps = gaps
        self._asked = asked
        self._asked_xla = xla
        self._given = flags_cluster()  # before the script has set anything
        self._read = False  # whether flags have XLA cluster all functions, as TensorFlow reads them
        self._keras: List[Any] = []
        self._tf: Any = None
        self._counted: Dict[str, Set[str]] = {}  # layers by policy
        self._made: Dict[int, Any] = {}  # what layers of the model that is being called made: tensor, layer, entry
        self._outputs: Dict[str, Dict[str, Optional[str]]] = {}
        self._scales: List[Dict[str, Any]] = []
        hooks.on_call = self._called

    def on_tensorflow(self, tf: Any) -> None:
        """Take TensorFlow, right after its import: what the script sets before that counts."""
        self._tf, self._read = tf, flags_cluster()

    def on_keras(self, keras: Any) -> None:
        """Take one Keras; there may be others."""
        self._keras.append(keras)

    def updates(self, optimizer: Any) -> None:
        """Take an optimizer that updates weights."""
        scale = loss_scale_of(optimizer)
        if scale not in self._scales:
            self._scales.append(scale)

    def described(self) -> Dict[str, Any]:
        """Return what probe.json holds of the policy, the layers by theirs, outputs, loss scales, XLA and TF32."""
        policy = self._gaps.run("precision policy", self._policy)
        by = None if policy in (None, DEFAULT) else "tcprobe" if policy == self._asked else "script"
        if policy == DEFAULT and self._asked is not None:
            by = "script"  # which put it back
        return {
            "name": policy,
            "set_by": by,
            "layers": {name: len(layers) for name, layers in sorted(self._counted.items())},
            "graph_rewrite": bool(self._gaps.run("graph rewrite", self._rewrites)),
            "outputs": list(self._outputs.values()),
            "loss_scales": self._scales,
            "clustered_by": self._gaps.run("auto-clustering", self._clustered_by),
            "tf32_off": bool(self._tf is not None and self._gaps.run("TF32", lambda: tf32_off(self._tf))),
        }

    def _clustered_by(self) -> Optional[str]:
        """Return who has XLA cluster every function; None where nobody does."""
        if self._tf is not None and self._tf.config.optimizer.get_jit():
            return "script"
        if not self._read:
            return None
        return "tcprobe" if self._asked_xla else "environment" if self._given and self._asked_xla is None else "script"

    def _policy(self) -> Optional[str]:
        """Return the global policy, of several Keras the first that is not the default."""
        names = [name for name in map(global_policy, self._keras) if name is not None]
        return next((name for name in names if name != DEFAULT), names[0] if names else None)

    def _rewrites(self) -> bool:
        if os.environ.get(REWRITE, "").lower() in ("1", "true"):
            return True
        options = self._tf.config.optimizer.get_experimental_options() if self._tf is not None else {}
        return bool(options.get("auto_mixed_precision"))

    def _called(self, entry: CalledLayer, layer: Any, _args: Any, _kwds: Any, result: Any) -> None:
        inner = any(
            True for _ in getattr(layer, "_flatten_layers", lambda **_: ())(include_self=False, recursive=False)
        )
        name = policy_of(layer)
        if name is not None and not inner and getattr(layer, "weights", None):
            self._counted.setdefault(name, set()).add(entry.path)
        activation = activation_of(layer)
        tensors = [t for t in self._tf.nest.flatten(result) if hasattr(t, "dtype")] if self._tf is not None else []
        if activation in PROBABILITIES and not inner:
            for tensor in tensors:
                self._made[id(tensor)] = tensor, layer, entry, activation
        if "/" not in entry.path:
            made, self._made = self._made, {}
            for tensor in tensors if is_model(layer) else ():
                if id(tensor) in made and not _is_taken(tensor):
                    self._output(*made[id(tensor)])

    def _output(self, tensor: Any, layer: Any, entry: CalledLayer, activation: str) -> None:
        dtype = str(getattr(tensor.dtype, "name", tensor.dtype))
        if dtype in HALF:
            self._outputs[entry.path] = {
                "layer": entry.path,
                "layer_class": type(layer).__name__,
                "activation": activation,
                "dtype": dtype,
                "source": entry.source,
            }


def loss_scale_of(optimizer: Any) -> Dict[str, Any]:
    """Return how an optimizer scales the loss: dynamic, fixed or none, with a fixed scale's value; and its name."""
    name = getattr(getattr(optimizer, "inner_optimizer", optimizer), "name", None)
    if "LossScale" in type(optimizer).__name__:
        value = getattr(optimizer, "initial_scale", None)
        kind = "dynamic" if getattr(optimizer, "dynamic", True) else "fixed"
    else:
        value = getattr(optimizer, "loss_scale_factor", None)
        kind = "none" if value is None else "fixed"
    return {"kind": kind, "value": None if value is None else float(value), "optimizer": name}


def global_policy(keras: Any) -> Optional[str]:
    """Return the name of a Keras' global policy; None where it has none."""
    mixed = getattr(keras, "mixed_precision", None)
    for owner in (mixed, getattr(mixed, "experimental", None)):
        for name in ("global_policy", "dtype_policy"):
            ask = getattr(owner, name, None)
            if ask is not None:
                return str(ask().name)
    return None


def policy_of(layer: Any) -> Optional[str]:
    """Return the name of a layer's own policy; None where it has none."""
    policy = getattr(layer, "dtype_policy", None) or getattr(layer, "_dtype_policy", None)
    return None if policy is None else str(getattr(policy, "name", policy))


def activation_of(layer: Any) -> Optional[str]:
    """Return the name of a layer's activation; None where it has none."""
    if type(layer).__name__ == "Softmax":
        return "softmax"
    return getattr(getattr(layer, "activation", None), "__name__", None)


def is_model(layer: Any) -> bool:
    """Return whether an object is a model of any Keras, rather than a layer."""
    return any(kind.__name__ == "Model" for kind in type(layer).__mro__)


def _is_taken(tensor: Any) -> bool:
    """Return whether an op of the model takes an output of it: weights of an attention, that it gives too."""
    consumers = getattr(tensor, "consumers", None)
    return bool(consumers()) if consumers is not None and getattr(tensor, "graph", None) is not None else False
