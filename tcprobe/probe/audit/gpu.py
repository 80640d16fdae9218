"""Answers a script that asks for a GPU as the machine does that the audit is for: there is one, nothing runs on it.

TensorFlow places what `tf.device` asks to stand on a GPU on the CPU, and a strategy over GPUs has one replica there.
"""

from __future__ import annotations

import os
import re
import sys
from functools import partial
from types import FrameType, SimpleNamespace
from typing import Any, Callable, Dict, List, Optional

from ..core.gaps import Gaps
from ..core.lines import USER, rank, running_line
from ..tensorflow.hooks.patch import Patches

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
