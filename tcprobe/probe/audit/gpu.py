"""Answers a script that asks for a GPU as the machine does that the audit is for: there is one, nothing runs on it.

TensorFlow places what `tf.device` asks to stand on a GPU on the CPU, and a strategy over GPUs has one replica there.
What XLA would compile on a GPU is told as Keras 3 and TensorFlow decide it there.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
import weakref
from functools import partial
from types import FrameType, SimpleNamespace
from typing import Any, Callable, Dict, List, NamedTuple, Optional

from ..core.gaps import Gaps
from ..core.lines import USER, rank, running_line
from ..tensorflow.hooks.patch import Patches, defining_class
from .classes import CUDNN_LAYERS

Method = Callable[..., Any]


class Xla(NamedTuple):
    """What audit.json says of a step.

    Attributes:
        xla: whether XLA compiles it; None where each function says so itself.
        xla_by_default: whether that is what Keras decided.
    """

    xla: Optional[bool]
    xla_by_default: bool = False


class AutoXla:
    """Notes the models whose `jit_compile` is "auto", which newer versions of Keras switch off where there is no GPU.

    Their train functions are made as on a GPU; they are traced and never compiled.
    """

    def __init__(self) -> None:
        self._auto: "weakref.WeakSet[Any]" = weakref.WeakSet()
        self._decides = False  # whether this Keras compiles by itself
        self._made = False
        self._patches = Patches()

    def install(self, keras: Any) -> None:
        """Hook a Keras that decides by itself; nothing happens with another."""
        if hasattr(keras.Model, "_resolve_auto_jit_compile"):
            self._decides = True
            self._patches.method(keras.Model, "_resolve_auto_jit_compile", self._resolving)
            self._patches.method(keras.Model, "compile", self._compiling)
            self._patches.method(keras.Model, "make_train_function", self._making)

    def _resolving(self, resolve: Method) -> Method:
        def resolved(model: Any) -> Any:
            self._auto.add(model)
            return resolve(model)

        return resolved

    def _compiling(self, plain: Method) -> Method:
        signature = inspect.signature(plain)

        def compiled(model: Any, *args: Any, **kwds: Any) -> None:
            plain(model, *args, **kwds)
            # Setting the attribute for the first time reads it, which resolves "auto" whatever was given.
            if signature.bind(model, *args, **kwds).arguments.get("jit_compile", "auto") != "auto":
                self._auto.discard(model)

        return compiled

    def _making(self, make: Method) -> Method:
        def made(model: Any, *args: Any, **kwds: Any) -> Any:
            if model not in self._auto or not self._supported(model):
                return make(model, *args, **kwds)
            before = model.jit_compile
            model.jit_compile = self._made = True
            try:
                return make(model, *args, **kwds)
            finally:
                model.jit_compile = before

        return made

    def decided(self) -> bool:
        """Return whether a train function was compiled since this was asked last, for Keras does so by itself."""
        made, self._made = self._made, False
        return made

    def of(self, model: Any) -> Xla:
        """Return whether XLA would compile a model's step on a GPU, as `fit` makes it."""
        is_open = not was_compiled(model) and self._decides
        if is_open or model in self._auto:
            supported = self._supported(model)
            return Xla(supported, supported)
        return Xla(bool(getattr(model, "jit_compile", getattr(model, "_jit_compile", None))))

    @staticmethod
    def _supported(model: Any) -> bool:
        if getattr(model, "_distribute_strategy", None) or any(_in_cudnn(part) for part in model._flatten_layers()):
            return False
        module = sys.modules[defining_class(type(model), "_resolve_auto_jit_compile").__module__]
        return bool(module.model_supports_jit(model))


def was_compiled(model: Any) -> bool:
    """Return whether the script has called a model's `compile`."""
    return bool(getattr(model, "compiled", False)) or getattr(model, "optimizer", None) is not None


def _in_cudnn(layer: Any) -> bool:
    """Return whether a layer runs in cuDNN on a GPU, which keeps Keras 3 from compiling the model that it is in.

    Source: keras/src/layers/rnn/lstm.py and gru.py, `supports_jit`; backend/tensorflow/rnn.py, `cudnn_ok`.
    """
    if not any(c.__name__ in CUDNN_LAYERS for c in type(layer).__mro__):
        return False
    cell = layer.cell
    names = [getattr(getattr(cell, n, None), "__name__", None) for n in ("activation", "recurrent_activation")]
    plain = not layer.unroll and not cell.recurrent_dropout and cell.use_bias and getattr(cell, "reset_after", True)
    return bool(plain and names == ["tanh", "sigmoid"] and getattr(layer, "use_cudnn", True) in (True, "auto"))


VISIBLE = "CUDA_VISIBLE_DEVICES"
NO_DEVICE = re.compile(r"\s*(-.*)?$")  # what follows a number that is none is not seen
FRAMEWORKS = ("keras", "tf_keras")  # they ask what they run on, which is the CPU
NOTHING_USED = {"current": 0, "peak": 0}
Make = Callable[[Any], Callable[..., Any]]


class OneGpu:
    """Hooks what asks for GPUs, and what sets one up.

    Args:
        gaps: takes what a hook raises.
        details: what `get_device_details` says of the GPU.

    Attributes:
        asked: the calls that were told of a GPU, with their lines, each once.
    """

    def __init__(self, gaps: Gaps, details: Dict[str, Any]) -> None:
        self.asked: List[Dict[str, Optional[str]]] = []
        self._gaps = gaps
        self._patches = Patches()
        self._began = os.environ.get(VISIBLE)
        self._is_visible = True
        self._device: Any = None
        capability = details.get("compute_capability")
        self._details = dict(details, compute_capability=tuple(capability)) if capability else details

    def on_tensorflow(self, tf: Any) -> None:
        """Hook TensorFlow's functions, under each name that they have."""
        self._device = tf.config.PhysicalDevice("/physical_device:GPU:0", "GPU")
        logical = tf.config.LogicalDevice("/device:GPU:0", "GPU")
        of_config: Dict[str, Make] = {
            "list_physical_devices": self._listing("tensorflow.config.list_physical_devices", self._device, False),
            "list_logical_devices": self._listing("tensorflow.config.list_logical_devices", logical, True),
            "get_visible_devices": self._listing("tensorflow.config.get_visible_devices", self._device, True),
            "set_visible_devices": self._showing,
            "set_memory_growth": self._of_device(None),
            "get_memory_growth": self._of_device(True),
            "get_device_details": self._of_device(self._details),
            "get_memory_info": self._of_device(NOTHING_USED),
            "get_memory_usage": self._of_device(0),
            "reset_memory_stats": self._of_device(None),
            "set_soft_device_placement": lambda _: lambda enabled: None,  # noqa: ARG005
        }
        for kind in ("logical", "virtual"):
            of_config["set_%s_device_configuration" % kind] = self._of_device(None)
            of_config["get_%s_device_configuration" % kind] = self._of_device(None)
        of_test: Dict[str, Make] = {
            "is_gpu_available": self._switch("tensorflow.test.is_gpu_available", True),
            "gpu_device_name": self._switch("tensorflow.test.gpu_device_name", "/device:GPU:0"),
            "is_built_with_cuda": self._switch("tensorflow.test.is_built_with_cuda", True),
            "is_built_with_gpu_support": self._switch("tensorflow.test.is_built_with_gpu_support", True),
        }
        for root in (tf, tf.compat.v1):
            self._replace(getattr(root, "config", None), of_config)
            self._replace(getattr(getattr(root, "config", None), "experimental", None), of_config)
            self._replace(getattr(root, "test", None), of_test)

    def on_torch(self, torch: Any) -> None:
        """Hook PyTorch's questions: its models are not audited, but code of others asks it too."""
        of_cuda = {
            "is_available": self._switch("torch.cuda.is_available", True, _is_user),
            "device_count": self._switch("torch.cuda.device_count", 1, _is_user),
        }
        self._replace(torch.cuda, of_cuda)

    def on_jax(self, jax: Any) -> None:
        """Hook JAX's lists of devices."""
        self._replace(jax, {name: self._jax_devices("jax." + name) for name in ("devices", "local_devices")})

    def _replace(self, owner: Any, makes: Dict[str, Make]) -> None:
        for name, make in makes.items():
            if hasattr(owner, name):
                self._gaps.run("questions for a GPU", partial(self._patches.method, owner, name, make))

    def _tells(self, call: str, of_visible: bool = True) -> bool:
        """Return whether there is a GPU, and note that a call was told so."""
        now = os.environ.get(VISIBLE)
        if (now != self._began and now is not None and NO_DEVICE.match(now)) or (of_visible and not self._is_visible):
            return False
        asked = {"call": call, "place": running_line(2)}
        if asked not in self.asked:
            self.asked.append(asked)
        return True

    def _listing(self, call: str, device: Any, of_visible: bool) -> Make:
        def make(original: Any) -> Callable[..., Any]:
            def listed(device_type: Optional[str] = None) -> Any:
                real = original(device_type)
                asks = device_type in (None, "GPU") and not any(one.device_type == "GPU" for one in real)
                if asks and _is_no_framework(sys._getframe(1)) and self._tells(call, of_visible):
                    return [*real, device]
                return real

            return listed

        return make

    def _switch(self, call: str, answer: Any, of: Optional[Callable[[FrameType], bool]] = None) -> Make:
        def make(original: Any) -> Callable[..., Any]:
            def asks(*args: Any, **kwds: Any) -> Any:
                told = (of or _is_no_framework)(sys._getframe(1)) and self._tells(call)
                return answer if told else original(*args, **kwds)

            return asks

        return make

    def _jax_devices(self, call: str) -> Make:
        def make(original: Any) -> Callable[..., Any]:
            def devices(*args: Any, **kwds: Any) -> Any:
                try:
                    return original(*args, **kwds)
                except RuntimeError:  # there is no such backend
                    if not {"gpu", "cuda"}.intersection([*args, *kwds.values()]) or not self._tells(call):
                        raise
                    return [SimpleNamespace(id=0, platform="gpu", device_kind=self._details.get("device_name", "gpu"))]

            return devices

        return make

    def _of_device(self, answer: Any) -> Make:
        """Return what makes a function that answers of the GPU that is not there, and asks TensorFlow of all else."""

        def make(original: Any) -> Callable[..., Any]:
            def of_device(device: Any, *args: Any, **kwds: Any) -> Any:
                named = isinstance(device, str) and "GPU" in device.upper()
                return answer if named or device == self._device else original(device, *args, **kwds)

            return of_device

        return make

    def _showing(self, original: Any) -> Callable[..., Any]:
        def show(devices: Any, device_type: Optional[str] = None) -> Any:
            listed = [devices] if devices == self._device or not isinstance(devices, (list, tuple)) else list(devices)
            if device_type == "GPU" or self._device in listed:
                self._is_visible = bool(listed)
            if self._device not in listed:
                return original(devices, device_type)
            others = [device for device in listed if device != self._device]
            return original(others, device_type) if others else None

        return show


def _is_no_framework(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).partition(".")[0] not in FRAMEWORKS


def _is_user(frame: FrameType) -> bool:
    return rank(frame.f_code.co_filename) == USER
