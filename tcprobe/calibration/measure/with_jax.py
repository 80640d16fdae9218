"""Measure through JAX: XLA compiles each set of products and chooses the kernels, cuBLAS' or its own."""

from __future__ import annotations

import importlib
import re
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

NAME = "jax"
WITHOUT_CUDA_11 = (0, 4, 26)  # JAX's change log: the first version that needs CUDA 12


class JaxSession:
    """JAX on one device."""

    def __init__(self, device: str, tf32: bool) -> None:
        jax = importlib.import_module(NAME)
        self._jax = jax
        self.failures: tuple[type[BaseException], ...] = (RuntimeError, ValueError, TypeError, NotImplementedError)
        self._device = jax.devices("cpu")[0] if device == "cpu" else pick(device, _gpus(jax), "JAX")
        self._on_gpu = device != "cpu"
        jax.config.update("jax_default_device", self._device)
        jax.config.update("jax_default_matmul_precision", "tensorfloat32" if tf32 else "highest")
        self._key = jax.random.PRNGKey(0)

    def about(self) -> dict[str, Any]:
        found: dict[str, Any] = {"framework": "JAX", "version": self._jax.__version__}
        if self._on_gpu:
            capability = str(getattr(self._device, "compute_capability", "") or "")
            found["gpu"] = self._device.device_kind
            found["compute_capability"] = [int(n) for n in capability.split(".")] if capability else None
            said = _cuda(str(getattr(self._device.client, "platform_version", "")))
            found["cuda"] = said or ("12 or later" if _version(self._jax.__version__) >= WITHOUT_CUDA_11 else None)
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
        self._key, key = self._jax.random.split(self._key)
        return (self._jax.random.normal(key, shape) * SCALE).astype(dtype)

    def function(self, case: CaseRow) -> CaseFunction:
        jax = self._jax
        if case["op"] == "gemm":
            return self._product(case)
        image, taps, _ = conv_shapes(case)
        stride, padding = pair(case, "stride"), [(p, p) for p in pair(case, "padding")]
        layout = ("NHWC", "HWIO", "NHWC")
        if self._first(case):
            image, layout = nchw(image), ("NCHW", "HWIO", "NCHW")
        dtype = memory_dtype(case)

        def forward(x: Any, w: Any) -> Any:
            return jax.lax.conv_general_dilated(x, w, stride, padding, dimension_numbers=layout)

        # a convolution is linear in image and filters, so its gradients are transposes
        if case["pass"] == "dgrad":
            like = jax.ShapeDtypeStruct(image, dtype)
            return lambda w, g: jax.linear_transpose(lambda x: forward(x, w), like)(g)[0]
        if case["pass"] == "wgrad":
            like = jax.ShapeDtypeStruct(taps, dtype)
            return lambda x, g: jax.linear_transpose(lambda w: forward(x, w), like)(g)[0]
        return forward

    def _first(self, case: CaseRow) -> bool:
        return channels_first(case, self._on_gpu)

    def _product(self, case: CaseRow) -> CaseFunction:
        batched = int(case["batch"]) > 1
        first, second = int(batched), 1 + int(batched)
        left = first if flag(case, "transpose_a") else second
        right = second if flag(case, "transpose_b") else first
        batch = ((0,), (0,)) if batched else ((), ())
        return lambda a, b: self._jax.lax.dot_general(a, b, (((left,), (right,)), batch))

    def together(self, function: CaseFunction, sets: Sequence[Operands]) -> Callable[[], Any]:
        """Put all into one program with every operand as an argument, so that XLA neither folds nor merges products."""
        sets = list(sets)
        compiled = self._jax.jit(lambda every: [function(*operands) for operands in every]).lower(sets).compile()
        return lambda: compiled(sets)

    def wait(self, results: Any) -> None:
        for result in results:
            result.block_until_ready()

    def finite(self, results: Any) -> bool:
        return bool(self._jax.numpy.isfinite(results[0]).all())


def _gpus(jax: Any) -> Sequence[Any]:
    try:
        return list(jax.devices("gpu"))
    except RuntimeError:  # an unknown backend
        return []


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(n) for n in re.findall(r"\d+", text)[:3])


def _cuda(text: str) -> str | None:
    """Return the CUDA version from the client's ``cuda 12080``."""
    found = re.search(r"\bcuda\D{0,3}(\d{4,5})\b", text, re.IGNORECASE)
    return None if found is None else f"{int(found.group(1)) // 1000}.{int(found.group(1)) % 1000 // 10}"


def open(device: str, tf32: bool) -> JaxSession:  # noqa: A001 - the Protocol's name
    """Return JAX on a device."""
    if not is_installed(NAME):
        raise Unusable("JAX is not installed")
    return JaxSession(device, tf32)
