"""What a framework must offer to be measured, and helpers that all frameworks share."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # Python 3.8 cannot evaluate these
    CaseRow = dict[str, Any]
    Operands = tuple[Any, ...]
    CaseFunction = Callable[..., Any]
    Pair = tuple[int, int]

SCALE = 0.5  # of normally distributed operands: sums of products fit 16 bits. Zeros would run 10 % faster


class Unusable(Exception):
    """The framework is not installed or sees no GPU; the text says which."""


class Session:
    """An imported framework, ready to measure on one device.

    Attributes:
        NAME, TITLE: the framework as imported, and as called.
        failures: exceptions that the framework raises for a product that it cannot compute.
        gpu: one of `gpus`; None measures on the CPU.
    """

    NAME = ""
    TITLE = ""
    failures: tuple[type[BaseException], ...] = (RuntimeError, ValueError, TypeError)

    @classmethod
    def open(cls, device: str, tf32: bool) -> Session:
        """Import the framework and choose the device: ``cpu`` or ``gpu:N``, counted as the framework does.

        Raises:
            Unusable: the framework is not installed or has no such device.
        """
        if importlib.util.find_spec(cls.NAME) is None:
            raise Unusable(cls.TITLE + " is not installed")
        return cls(device, tf32)

    def __init__(self, device: str, tf32: bool) -> None:
        self.framework: Any = importlib.import_module(self.NAME)
        self.gpu: Any = None if device == "cpu" else pick(device, self.gpus(), self.TITLE)
        self.prepare(tf32)

    def gpus(self) -> Sequence[Any]:
        """Return the GPUs that the framework sees."""
        raise NotImplementedError

    def prepare(self, tf32: bool) -> None:
        """Make the device the one to compute on, and say whether tf32 may be used."""
        raise NotImplementedError

    def about(self) -> dict[str, Any]:
        """Return framework, version, and of a GPU what is known: see `about_gpu`."""
        known = {} if self.gpu is None else self.about_gpu()
        return {"framework": self.TITLE, "version": self.framework.__version__, **known}

    def about_gpu(self) -> dict[str, Any]:
        """Return gpu, compute_capability, sm, memory_bytes, cuda, cudnn; None if unknown."""
        raise NotImplementedError

    def function(self, case: CaseRow) -> CaseFunction:
        """Return a function that computes a case from its operands; nothing is computed yet."""
        if case["op"] == "gemm":
            return self.product(flag(case, "transpose_a"), flag(case, "transpose_b"))
        return self.convolution(case, pair(case, "stride"), pair(case, "padding"))

    def product(self, a: bool, b: bool) -> CaseFunction:
        """Return a function that multiplies matrices, or stacks of them; `a` and `b`: that operand is transposed."""
        raise NotImplementedError

    def convolution(self, case: CaseRow, stride: Pair, padding: Pair) -> CaseFunction:
        """Return a function that computes one pass of a convolution from its two operands."""
        raise NotImplementedError

    def operands(self, case: CaseRow) -> Operands:
        """Return new random operands of a case on the device, none of them all zeros."""
        if case["op"] == "gemm":
            shapes: Sequence[Sequence[int]] = gemm_shapes(case)
        else:
            image, taps, result = self.stored(case)
            shapes = {"forward": (image, taps), "dgrad": (taps, result), "wgrad": (image, result)}[case["pass"]]
        return tuple(self.random(shape, case) for shape in shapes)

    def stored(self, case: CaseRow) -> Sequence[Sequence[int]]:
        """Return the shapes of image, filters and result of a convolution as the framework takes them."""
        image, taps, result = conv_shapes(case)
        return (nchw(image), taps, nchw(result)) if self.first(case) else (image, taps, result)

    def first(self, case: CaseRow) -> bool:
        """Say whether a convolution keeps channels before height and width."""
        return channels_first(case, self.gpu is not None)

    def random(self, shape: Sequence[int], case: CaseRow) -> Any:
        """Return normally distributed numbers, scaled by `SCALE`, in the dtype of a case."""
        raise NotImplementedError

    def together(self, function: CaseFunction, sets: Sequence[Operands]) -> Callable[[], Any]:
        """Return a call that queues the function once per set of operands and returns all results."""
        raise NotImplementedError

    def wait(self, results: Any) -> None:
        """Wait until the device has computed everything queued so far."""
        raise NotImplementedError

    def finite(self, results: Any) -> bool:
        """Say whether the first result is free of infinities and NaN."""
        raise NotImplementedError


def pick(device: str, gpus: Sequence[Any], name: str) -> Any:
    """Return the GPU with the number in ``gpu:N``.

    Raises:
        Unusable: there is no such GPU.
    """
    index = int(device.partition(":")[2] or 0)
    if index < len(gpus):
        return gpus[index]
    if not gpus:
        raise Unusable(name + " sees no GPU")
    raise Unusable(f"{name} sees GPUs 0 to {len(gpus) - 1}, no GPU {index}")


def sizes(case: CaseRow, names: str) -> list[int]:
    """Return the sizes of a case in the columns `names`."""
    return [int(case[name]) for name in names.split()]


def pair(case: CaseRow, name: str) -> Pair:
    """Return a column written like ``3x5``."""
    first, _, second = case[name].partition("x")
    return int(first), int(second)


def flag(case: CaseRow, name: str) -> bool:
    """Say whether a column is 1."""
    return str(case.get(name, "")) == "1"


def memory_dtype(case: CaseRow) -> str:
    """Return the dtype of the operands in memory: float32 for tf32, which only changes how they are multiplied."""
    name = str(case["dtype"])
    return "float32" if name == "tf32" else name


def channels_first(case: CaseRow, on_gpu: bool) -> bool:
    """Say whether a convolution keeps channels before height and width in memory: float32 on CUDA cores does.

    Frameworks would transpose channels-last tensors for such a convolution, and the measurement would include that. In
    training, TensorFlow's layout optimizer and PyTorch's default also put channels first.
    """
    return on_gpu and case["dtype"] == "float32"


def nchw(shape: Sequence[int]) -> tuple[int, int, int, int]:
    """Return a shape of images, height, width, channels with the channels moved to second place."""
    return shape[0], shape[3], shape[1], shape[2]


def gemm_shapes(case: CaseRow) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the shapes of both operands of a GEMM as stored."""
    m, n, k, batch = sizes(case, "m n k batch")
    a = (k, m) if flag(case, "transpose_a") else (m, k)
    b = (n, k) if flag(case, "transpose_b") else (k, n)
    return (a, b) if batch == 1 else ((batch, *a), (batch, *b))


def conv_shapes(
    case: CaseRow,
) -> tuple[tuple[int, int, int, int], tuple[int, int, int, int], tuple[int, int, int, int]]:
    """Return the shapes of image, filters (taps first) and result; image and result are channels-last."""
    images, height, width, channels, filters = sizes(case, "images height width channels filters")
    kernel, stride, padding = pair(case, "kernel"), pair(case, "stride"), pair(case, "padding")
    out = [(s + 2 * p - t) // d + 1 for s, t, d, p in zip((height, width), kernel, stride, padding)]  # noqa: B905
    return (images, height, width, channels), (*kernel, channels, filters), (images, out[0], out[1], filters)
