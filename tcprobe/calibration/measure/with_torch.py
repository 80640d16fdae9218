"""Measure through PyTorch: channels-last, cuDNN's fastest algorithm, launches recorded as CUDA graphs."""

from __future__ import annotations

import importlib
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

NAME = "torch"


class TorchSession:
    """PyTorch on one device."""

    def __init__(self, device: str, tf32: bool) -> None:
        torch = importlib.import_module(NAME)
        self._torch = torch
        self.failures: tuple[type[BaseException], ...] = (RuntimeError, ValueError, TypeError, NotImplementedError)
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        self._index = None if device == "cpu" else pick(device, range(count), "PyTorch")
        self._device = torch.device("cpu" if self._index is None else f"cuda:{self._index}")
        if self._index is not None:
            torch.cuda.set_device(self._device)
        torch.set_float32_matmul_precision("high" if tf32 else "highest")
        torch.backends.cudnn.allow_tf32 = tf32
        torch.backends.cudnn.benchmark = True
        torch.set_grad_enabled(False)

    def about(self) -> dict[str, Any]:
        torch = self._torch
        found: dict[str, Any] = {"framework": "PyTorch", "version": torch.__version__}
        if self._index is not None:
            known = torch.cuda.get_device_properties(self._index)
            found.update(
                gpu=known.name,
                compute_capability=[known.major, known.minor],
                sm=known.multi_processor_count,
                memory_bytes=known.total_memory,
                cuda=torch.version.cuda,
            )
            version = torch.backends.cudnn.version()
            found["cudnn"] = None if version is None else str(version)
        return found

    def operands(self, case: CaseRow) -> Operands:
        if case["op"] == "gemm":
            return tuple(self._random(shape, case) for shape in gemm_shapes(case))
        image, taps, result = conv_shapes(case)
        moved = {"x": nchw(image), "w": (taps[3], taps[2], taps[0], taps[1]), "g": nchw(result)}
        names = {"forward": "xw", "dgrad": "wg", "wgrad": "xg"}[case["pass"]]
        return tuple(self._random(moved[name], case).to(memory_format=self._layout(case)) for name in names)

    def _layout(self, case: CaseRow) -> Any:
        first = channels_first(case, self._index is not None)
        return self._torch.contiguous_format if first else self._torch.channels_last

    def _random(self, shape: Sequence[int], case: CaseRow) -> Any:
        dtype = getattr(self._torch, memory_dtype(case))
        return self._torch.randn(*shape, device=self._device).mul_(SCALE).to(dtype)

    def function(self, case: CaseRow) -> CaseFunction:
        torch = self._torch
        if case["op"] == "gemm":
            a, b = flag(case, "transpose_a"), flag(case, "transpose_b")
            return lambda x, y: torch.matmul(x.transpose(-1, -2) if a else x, y.transpose(-1, -2) if b else y)
        stride, padding = pair(case, "stride"), pair(case, "padding")
        if case["pass"] == "forward":
            return lambda x, w: torch.nn.functional.conv2d(x, w, None, stride, padding)
        image, taps, _ = conv_shapes(case)
        settings = ([0], stride, padding, (1, 1), False, (0, 0), 1)
        backward = torch.ops.aten.convolution_backward
        if case["pass"] == "dgrad":
            # of the tensors that are not computed, only shape and layout count
            x = self._empty(nchw(image), case)
            return lambda w, g: backward(g, x, w, *settings, (True, False, False))[0]
        w = self._empty((taps[3], taps[2], taps[0], taps[1]), case)
        return lambda x, g: backward(g, x, w, *settings, (False, True, False))[1]

    def _empty(self, shape: Sequence[int], case: CaseRow) -> Any:
        torch = self._torch
        dtype = getattr(torch, memory_dtype(case))
        return torch.empty(tuple(shape), dtype=dtype, device=self._device, memory_format=self._layout(case))

    def together(self, function: CaseFunction, sets: Sequence[Operands]) -> Callable[[], Any]:
        """Record one CUDA graph, so that launching from Python does not hide how short a kernel is."""

        def plain() -> Any:
            return [function(*operands) for operands in sets]

        if self._index is None:
            return plain
        torch = self._torch
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

    def wait(self, results: Any) -> None:  # noqa: ARG002 - the Protocol's
        if self._index is not None:
            self._torch.cuda.synchronize()

    def finite(self, results: Any) -> bool:
        return bool(self._torch.isfinite(results[0]).all())


def open(device: str, tf32: bool) -> TorchSession:  # noqa: A001 - the Protocol's name
    """Return PyTorch on a device."""
    if not is_installed(NAME):
        raise Unusable("PyTorch is not installed")
    return TorchSession(device, tf32)
