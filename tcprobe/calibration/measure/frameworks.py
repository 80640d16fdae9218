"""What differs between TensorFlow, PyTorch and JAX: how to take a device, compute a case, and queue several."""

from __future__ import annotations

import contextlib
import inspect
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .base import SCALE, Session, conv_shapes, memory_dtype, nchw

if TYPE_CHECKING:
    from .base import CaseFunction, CaseRow, Operands, Pair

WITHOUT_CUDA_11 = (0, 4, 26)  # JAX's change log: the first version that needs CUDA 12


class TensorFlow(Session):
    """TensorFlow 2: the ops of its training steps, in a graph, without XLA."""

    NAME = "tensorflow"
    TITLE = "TensorFlow"

    def gpus(self) -> Sequence[Any]:
        return list(self.framework.config.list_physical_devices("GPU"))

    def prepare(self, tf32: bool) -> None:
        tf = self.framework
        self.failures = (tf.errors.OpError, *self.failures)
        if self.gpu is not None:
            tf.config.set_visible_devices([self.gpu], "GPU")
            with contextlib.suppress(RuntimeError):
                tf.config.experimental.set_memory_growth(self.gpu, True)
        tf.config.experimental.enable_tensor_float_32_execution(tf32)
        # the layout optimizer would transpose single convolutions, and their time would include that
        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
        self.device = "/CPU:0" if self.gpu is None else "/GPU:0"

    def about_gpu(self) -> dict[str, Any]:
        tf = self.framework
        details, build = tf.config.experimental.get_device_details(self.gpu), tf.sysconfig.get_build_info()
        capability = details.get("compute_capability")
        return {
            "gpu": details.get("device_name"),
            "compute_capability": list(capability) if capability else None,
            "cuda": build.get("cuda_version"),
            "cudnn": build.get("cudnn_version"),
        }

    def random(self, shape: Sequence[int], case: CaseRow) -> Any:
        with self.framework.device(self.device):
            return self.framework.cast(self.framework.random.normal(shape, stddev=SCALE), memory_dtype(case))

    def product(self, a: bool, b: bool) -> CaseFunction:
        return lambda x, y: self.framework.linalg.matmul(x, y, transpose_a=a, transpose_b=b)

    def convolution(self, case: CaseRow, stride: Pair, padding: Pair) -> CaseFunction:
        image, taps, _ = self.stored(case)
        sides = [padding[0], padding[0], padding[1], padding[1]]
        settings: dict[str, Any] = {"padding": "EXPLICIT"}
        if self.first(case):
            settings.update(data_format="NCHW", strides=[1, 1, *stride], explicit_paddings=[0, 0, 0, 0, *sides])
        else:
            settings.update(data_format="NHWC", strides=[1, *stride, 1], explicit_paddings=[0, 0, *sides, 0, 0])
        raw = self.framework.raw_ops
        if case["pass"] == "dgrad":
            return lambda w, g: raw.Conv2DBackpropInput(input_sizes=image, filter=w, out_backprop=g, **settings)
        if case["pass"] == "wgrad":
            return lambda x, g: raw.Conv2DBackpropFilter(input=x, filter_sizes=taps, out_backprop=g, **settings)
        return lambda x, w: raw.Conv2D(input=x, filter=w, **settings)

    def together(self, function: CaseFunction, sets: Sequence[Operands]) -> Callable[[], Any]:
        """Put all into one graph with every operand as an argument, so that nothing is folded or merged."""
        tf = self.framework
        known = inspect.signature(tf.function).parameters  # 2.4 calls it experimental_compile, off by default
        graph = tf.function(
            lambda flat: [function(*flat[i : i + 2]) for i in range(0, len(flat), 2)],
            **({"jit_compile": False} if "jit_compile" in known else {}),
        )
        flat = [operand for operands in sets for operand in operands]
        with tf.device(self.device):
            concrete = graph.get_concrete_function(flat)

        def run() -> Any:
            with tf.device(self.device):
                return concrete(flat)

        return run

    def wait(self, results: Any) -> None:
        """Fetch a number of the last result: a device computes in order, so everything before it is done too."""
        if self.gpu is not None:
            self.framework.reshape(results[-1], [-1])[:1].numpy()

    def finite(self, results: Any) -> bool:
        tf = self.framework
        return bool(tf.reduce_all(tf.math.is_finite(tf.cast(results[0], tf.float32))).numpy())


class PyTorch(Session):
    """PyTorch: channels-last, cuDNN's fastest algorithm, launches recorded as CUDA graphs."""

    NAME = "torch"
    TITLE = "PyTorch"

    def gpus(self) -> Sequence[Any]:
        return range(self.framework.cuda.device_count() if self.framework.cuda.is_available() else 0)

    def prepare(self, tf32: bool) -> None:
        torch = self.framework
        self.device = torch.device("cpu" if self.gpu is None else f"cuda:{self.gpu}")
        if self.gpu is not None:
            torch.cuda.set_device(self.device)
        torch.set_float32_matmul_precision("high" if tf32 else "highest")
        torch.backends.cudnn.allow_tf32 = tf32
        torch.backends.cudnn.benchmark = True
        torch.set_grad_enabled(False)

    def about_gpu(self) -> dict[str, Any]:
        torch = self.framework
        properties, cudnn = torch.cuda.get_device_properties(self.gpu), torch.backends.cudnn.version()
        return {
            "gpu": properties.name,
            "compute_capability": [properties.major, properties.minor],
            "sm": properties.multi_processor_count,
            "memory_bytes": properties.total_memory,
            "cuda": torch.version.cuda,
            "cudnn": None if cudnn is None else str(cudnn),
        }

    def stored(self, case: CaseRow) -> Sequence[Sequence[int]]:
        image, taps, result = conv_shapes(case)
        return nchw(image), (taps[3], taps[2], taps[0], taps[1]), nchw(result)

    def layout(self, case: CaseRow) -> Any:
        """Return how the tensors of a case lie in memory, whose shapes are always channels-first."""
        plain = case["op"] == "gemm" or self.first(case)
        return self.framework.contiguous_format if plain else self.framework.channels_last

    def random(self, shape: Sequence[int], case: CaseRow) -> Any:
        numbers = self.framework.randn(*shape, device=self.device).mul_(SCALE)
        return numbers.to(getattr(self.framework, memory_dtype(case))).to(memory_format=self.layout(case))

    def product(self, a: bool, b: bool) -> CaseFunction:
        multiply = self.framework.matmul
        return lambda x, y: multiply(x.transpose(-1, -2) if a else x, y.transpose(-1, -2) if b else y)

    def convolution(self, case: CaseRow, stride: Pair, padding: Pair) -> CaseFunction:
        torch = self.framework
        if case["pass"] == "forward":
            return lambda x, w: torch.nn.functional.conv2d(x, w, None, stride, padding)
        settings = ([0], stride, padding, (1, 1), False, (0, 0), 1)
        backward = torch.ops.aten.convolution_backward
        dtype = getattr(torch, memory_dtype(case))
        x, w = (  # of the tensors that are not computed, only shape and layout count
            torch.empty(tuple(shape), dtype=dtype, device=self.device, memory_format=self.layout(case))
            for shape in self.stored(case)[:2]
        )
        if case["pass"] == "dgrad":
            return lambda w, g: backward(g, x, w, *settings, (True, False, False))[0]
        return lambda x, g: backward(g, x, w, *settings, (False, True, False))[1]

    def together(self, function: CaseFunction, sets: Sequence[Operands]) -> Callable[[], Any]:
        """Record one CUDA graph, so that launching from Python does not hide how short a kernel is."""

        def plain() -> Any:
            return [function(*operands) for operands in sets]

        if self.gpu is None:
            return plain
        torch = self.framework
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):  # before recording: libraries choose algorithms and allocate workspace
            for _ in range(2):
                plain()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            results = plain()

        def run() -> Any:
            graph.replay()
            return results

        return run

    def wait(self, results: Any) -> None:  # noqa: ARG002 - the base's
        if self.gpu is not None:
            self.framework.cuda.synchronize()

    def finite(self, results: Any) -> bool:
        return bool(self.framework.isfinite(results[0]).all())


class Jax(Session):
    """JAX: XLA compiles each set of products and chooses the kernels, cuBLAS' or its own."""

    NAME = "jax"
    TITLE = "JAX"

    def gpus(self) -> Sequence[Any]:
        try:
            return list(self.framework.devices("gpu"))
        except RuntimeError:  # an unknown backend
            return []

    def prepare(self, tf32: bool) -> None:
        jax = self.framework
        jax.config.update("jax_default_device", jax.devices("cpu")[0] if self.gpu is None else self.gpu)
        jax.config.update("jax_default_matmul_precision", "tensorfloat32" if tf32 else "highest")
        self.key = jax.random.PRNGKey(0)

    def about_gpu(self) -> dict[str, Any]:
        capability = str(getattr(self.gpu, "compute_capability", "") or "")
        cuda = _cuda(str(getattr(self.gpu.client, "platform_version", "")))
        return {
            "gpu": self.gpu.device_kind,
            "compute_capability": [int(n) for n in capability.split(".")] if capability else None,
            "cuda": cuda or ("12 or later" if _version(self.framework.__version__) >= WITHOUT_CUDA_11 else None),
        }

    def random(self, shape: Sequence[int], case: CaseRow) -> Any:
        self.key, key = self.framework.random.split(self.key)
        return (self.framework.random.normal(key, shape) * SCALE).astype(memory_dtype(case))

    def product(self, a: bool, b: bool) -> CaseFunction:
        def multiply(x: Any, y: Any) -> Any:
            batch = tuple(range(x.ndim - 2))
            left, right = x.ndim - (2 if a else 1), y.ndim - (1 if b else 2)
            return self.framework.lax.dot_general(x, y, (((left,), (right,)), (batch, batch)))

        return multiply

    def convolution(self, case: CaseRow, stride: Pair, padding: Pair) -> CaseFunction:
        jax, (image, taps, _), dtype = self.framework, self.stored(case), memory_dtype(case)
        sides = [(p, p) for p in padding]
        layout = ("NCHW", "HWIO", "NCHW") if self.first(case) else ("NHWC", "HWIO", "NHWC")

        def forward(x: Any, w: Any) -> Any:
            return jax.lax.conv_general_dilated(x, w, stride, sides, dimension_numbers=layout)

        # a convolution is linear in image and filters, so its gradients are transposes
        if case["pass"] == "dgrad":
            like = jax.ShapeDtypeStruct(image, dtype)
            return lambda w, g: jax.linear_transpose(lambda x: forward(x, w), like)(g)[0]
        if case["pass"] == "wgrad":
            like = jax.ShapeDtypeStruct(taps, dtype)
            return lambda x, g: jax.linear_transpose(lambda w: forward(x, w), like)(g)[0]
        return forward

    def together(self, function: CaseFunction, sets: Sequence[Operands]) -> Callable[[], Any]:
        """Put all into one program with every operand as an argument, so that XLA neither folds nor merges products."""
        sets = list(sets)
        compiled = self.framework.jit(lambda every: [function(*operands) for operands in every]).lower(sets).compile()
        return lambda: compiled(sets)

    def wait(self, results: Any) -> None:
        for result in results:
            result.block_until_ready()

    def finite(self, results: Any) -> bool:
        return bool(self.framework.numpy.isfinite(results[0]).all())


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(n) for n in re.findall(r"\d+", text)[:3])


def _cuda(text: str) -> str | None:
    """Return the CUDA version from the client's ``cuda 12080``."""
    found = re.search(r"\bcuda\D{0,3}(\d{4,5})\b", text, re.IGNORECASE)
    return None if found is None else f"{int(found.group(1)) // 1000}.{int(found.group(1)) % 1000 // 10}"
