"""Hooks TensorFlow and Keras for an audit, while a file is imported or run."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any, Dict, List, Optional

from ..core.gaps import Gaps
from ..script.script import AfterImport
from ..tensorflow.graph.recorder import GraphRecorder
from ..tensorflow.precision import tf32_off, version
from .calls import AuditCalls
from .datasets import DataSets
from .gpu import AutoXla, OneGpu
from .layers import LayerLog, is_model
from .onward import Methods, Onward
from .step import GivenShapes, SeenInputs, inputs_of

PRIVATE_KERAS = "tensorflow.python.keras"  # loaded with TensorFlow, and imported by many scripts although it is private


class Watch:
    """The hooks of one audit.

    Attributes:
        gaps: what this TensorFlow lacks.
        recorder: records what functions trace.
        log: the layers that they call.
        calls: the training calls, which are only traced.
        seen: what models were called with.
        made: every model that was constructed, kept alive.
        shapes: what the user says of models' inputs.
        onward: whether and how the script goes on after a step.
        xla: which models compile.
        gpu: the one that there is for the script.
        data: Keras' own data sets, which may not be on this machine.
        tf: TensorFlow, once it is imported.
        keras: every Keras that was imported.
    """

    def __init__(self, out: str, batch: Optional[int], shapes: GivenShapes, gpu: Dict[str, Any]) -> None:
        self.gaps = Gaps()
        self.recorder = GraphRecorder(out, self.gaps)
        self.log = LayerLog(self.recorder, self.gaps)
        self.onward = Onward()
        self.calls = AuditCalls(self.recorder, self.log, self.gaps, batch, self.onward)
        self.made: List[Any] = []
        self.methods = Methods(self.onward, self.recorder.fits, self.made, self.gaps)
        self.shapes = shapes
        self.seen = SeenInputs(shapes)
        self.xla = AutoXla()
        self.gpu = OneGpu(self.gaps, gpu)
        self.data = DataSets(self.gaps)
        self.tf: Any = None
        self.keras: List[Any] = []
        self.recorder.layers.on_eager_call = self.seen.called
        self.recorder.layers.on_made = self._made

    def start(self) -> None:
        """Watch for TensorFlow and Keras."""
        hooks = {"tensorflow": self._on_tensorflow, "keras": self._on_keras, "tf_keras": self._on_keras}
        hooks.update(self.data.hooks(), torch=self.gpu.on_torch, jax=self.gpu.on_jax)
        AfterImport(hooks, self.gaps).install()

    def finish(self) -> None:
        """Write graph.json."""
        self.recorder.calls_per_step(dict.fromkeys(self.calls.own, 1.0))
        self.recorder.write()

    def facts(self) -> Dict[str, Any]:
        """Return versions, the policy, and whether TF32 is off."""
        return {
            "tensorflow": getattr(self.tf, "__version__", None),
            "keras": next((getattr(k, "__version__", None) for k in self.keras), None),
            "policy": self._policy(),
            "tf32_off": bool(self.tf is not None and self.gaps.run("TF32", lambda: tf32_off(self.tf))),
        }

    def names(self) -> List[str]:
        """Return the names that a shape may be given for: of models, their classes and inputs."""
        found: List[str] = []
        for model in self.made:
            inputs = self.gaps.run("names of inputs", partial(_named_inputs, model))
            found += [str(getattr(model, "name", "")), type(model).__name__, *(inputs or ()), *inputs_of(model)]
        return found

    def _on_tensorflow(self, tf: Any) -> None:
        self.tf = self.log.tf = self.seen.tf = tf
        self.gaps.run("calls", lambda: self.calls.on_tensorflow(tf))
        self.recorder.on_tensorflow(tf)
        self.gaps.run("questions for a GPU", lambda: self.gpu.on_tensorflow(tf))
        self.gaps.run("saving", lambda: self.methods.on_tensorflow(tf))
        if version(tf) < (2, 6):
            self._on_keras(tf.keras)
        elif PRIVATE_KERAS in sys.modules:
            self.gaps.run("TensorFlow's own Keras", lambda: self._hook(sys.modules[PRIVATE_KERAS]))

    def _on_keras(self, keras: Any) -> None:
        self.keras.append(keras)
        self._hook(keras)

    def _hook(self, keras: Any) -> None:
        self.recorder.on_keras(keras)
        self.data.on_keras()
        self.gaps.run("methods of models", lambda: self.methods.on_keras(keras))
        self.gaps.run("XLA of Keras", lambda: self.xla.install(keras))

    def _made(self, layer: Any) -> None:
        if is_model(layer):
            self.made.append(layer)

    def _policy(self) -> Optional[str]:
        for keras in self.keras:
            mixed = getattr(keras, "mixed_precision", None)
            for name in ("global_policy", "dtype_policy"):
                ask = getattr(mixed, name, None)
                if ask is not None:
                    return self.gaps.run("policy", lambda: str(ask().name))
        return None


def _named_inputs(model: Any) -> List[str]:
    """Return the names of a model's inputs, if it has any of its own."""
    return [str(tensor.name).partition(":")[0] for tensor in getattr(model, "inputs", None) or ()]
