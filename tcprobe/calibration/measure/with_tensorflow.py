"""Measure through TensorFlow 2: the ops of its training steps, in a graph, without XLA."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .base import (
    SCALE,
    Unusable,
    channels_first,
    conv_shapes,
    flag,
    gemm_shapes,
    is_installed,
    memory_dtype,
    nchw,
    pair,
    pick,
)

if TYPE_CHECKING:
    from .base import CaseFunction, CaseRow, Operands

NAME = "tensorflow"


class TensorFlowSession:
    """TensorFlow on one device."""

    def __init__(self, device: str, tf32: bool) -> None:
        import tensorflow as tf

        self._tf = tf
        self.failures: tuple[type[BaseException], ...] = (
            tf.errors.OpError,
            ValueError,
            TypeError,
            RuntimeError,
            NotImplementedError,
        )
        self._gpu = None if device == "cpu" else pick(device, tf.config.list_physical_devices("GPU"), "TensorFlow")
        if self._gpu is not None:
            tf.config.set_visible_devices([self._gpu], "GPU")
            with contextlib.suppress(RuntimeError):
                tf.config.experimental.set_memory_growth(self._gpu, True)
        tf.config.experimental.enable_tensor_float_32_execution(tf32)
        # the layout optimizer would transpose single convolutions, and their time would include that
        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
        self._device = "/CPU:0" if self._gpu is None else "/GPU:0"

    def about(self) -> dict[str, Any]:
        tf = self._tf
        build = tf.sysconfig.get_build_info()
        found: dict[str, Any] = {"framework": "TensorFlow", "version": tf.__version__}
        if self._gpu is not None:
            details = tf.config.experimental.get_device_details(self._gpu)
            capability = details.get("compute_capability")
            found["gpu"] = details.get("device_name")
            found["compute_capability"] = list(capability) if capability else None
            found["cuda"], found["cudnn"] = build.get("cuda_version"), build.get("cudnn_version")
        return found

    def operands(self, case: CaseRow) -> Operands:
        if case["op"] == "gemm":
            shapes: Sequence[Any] = gemm_shapes(case)
        else:
            image, taps, result = conv_shapes(case)
            if self._first(case):
                image, result = nchw(image), nchw(result)
            shapes = {"forward": (image, taps), "dgrad": (taps, result), "wgrad": (image, result)}[case["pass"]]
        return tuple(self._random(shape, memory_dtype(case)) for shape in shapes)

    def _random(self, shape: Sequence[int], dtype: str) -> Any:
        with self._tf.device(self._device):
            return self._tf.cast(self._tf.random.normal(shape, stddev=SCALE), dtype)

    def function(self, case: CaseRow) -> CaseFunction:
        tf = self._tf
        if case["op"] == "gemm":
            a, b = flag(case, "transpose_a"), flag(case, "transpose_b")
            return lambda x, y: tf.linalg.matmul(x, y, transpose_a=a, transpose_b=b)
        image, taps, _ = conv_shapes(case)
        rows, columns = pair(case, "padding")
        strides, padding = pair(case, "stride"), [rows, rows, columns, columns]
        settings: dict[str, Any] = {"padding": "EXPLICIT"}
        if self._first(case):
            image = nchw(image)
            settings.update(data_format="NCHW", strides=[1, 1, *strides], explicit_paddings=[0, 0, 0, 0, *padding])
        else:
            settings.update(data_format="NHWC", strides=[1, *strides, 1], explicit_paddings=[0, 0, *padding, 0, 0])
        raw = tf.raw_ops
        if case["pass"] == "dgrad":
            return lambda w, g: raw.Conv2DBackpropInput(input_sizes=image, filter=w, out_backprop=g, **settings)
        if case["pass"] == "wgrad":
            return lambda x, g: raw.Conv2DBackpropFilter(input=x, filter_sizes=taps, out_backprop=g, **settings)
        return lambda x, w: raw.Conv2D(input=x, filter=w, **settings)

    def _first(self, case: CaseRow) -> bool:
        return channels_first(case, self._gpu is not None)

    def together(self, function: CaseFunction, sets: Sequence[Operands]) -> Callable[[], Any]:
        """Put all into one graph with every operand as an argument, so that nothing is folded or merged."""
        tf = self._tf
        known = inspect.signature(
            tf.function
        ).parameters  # TensorFlow 2.4 calls it experimental_compile, off by default
        graph = tf.function(
            lambda flat: [function(*flat[i : i + 2]) for i in range(0, len(flat), 2)],
            **({"jit_compile": False} if "jit_compile" in known else {}),
        )
        flat = [operand for operands in sets for operand in operands]
        with tf.device(self._device):
            concrete = graph.get_concrete_function(flat)

        def run() -> Any:
            with tf.device(self._device):
                return concrete(flat)

        return run

    def wait(self, results: Any) -> None:
        """Fetch a number of the last result: a device computes in order, so everything before it is done too."""
        if self._gpu is not None:
            self._tf.reshape(results[-1], [-1])[:1].numpy()

    def finite(self, results: Any) -> bool:
        tf = self._tf
        return bool(tf.reduce_all(tf.math.is_finite(tf.cast(results[0], tf.float32))).numpy())


def open(device: str, tf32: bool) -> TensorFlowSession:  # noqa: A001 - the Protocol's name
    """Return TensorFlow on a device."""
    if not is_installed(NAME):
        raise Unusable("TensorFlow is not installed")
    return TensorFlowSession(device, tf32)
