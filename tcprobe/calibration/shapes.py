"""The products that `tcprobe calibrate` may measure, before a GPU decides which of them fit."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from tcprobe.cost.measured import conv_record, gemm_record
from tcprobe.schema.op import OpRecord

ALIGNMENTS: Final = (1, 2, 4)  # of a contiguous dimension, in elements; 8 are whole 16 bytes of a 16-bit type
ODD: Final = (3, 5)  # further remainders modulo 8 that are aligned to one element
SEED: Final = 20
TRANSPOSES: Final = ((False, False), (False, True), (True, False))
"""Which operand is stored transposed: forward, input gradient, weight gradient of a dense layer."""
BOTH: Final = (True, True)
"""The fourth layout, A[k, m]^T B[n, k]^T: no pass of a layer has it, only products that a user transposes."""


@dataclass(frozen=True, slots=True)
class MatMul:
    """C[m, n] = A[m, k] B[k, n], `batch` times."""

    m: int
    n: int
    k: int
    batch: int = 1
    transpose_a: bool = False
    transpose_b: bool = False

    def record(self, dtype: str) -> OpRecord:
        """Return it as an op."""
        return gemm_record(self.m, self.n, self.k, dtype, self.batch, self.transpose_a, self.transpose_b)

    def columns(self) -> dict[str, object]:
        """Return its columns in a row of the CSV."""
        flags = {"transpose_a": int(self.transpose_a), "transpose_b": int(self.transpose_b)}
        return {"op": "gemm", "pass": "forward", "m": self.m, "n": self.n, "k": self.k, "batch": self.batch, **flags}


@dataclass(frozen=True, slots=True)
class Conv:
    """One pass of a 2D convolution, channels last."""

    images: int
    size: int
    channels: int
    filters: int
    kernel: int
    stride: int = 1
    pass_: str = "forward"

    @property
    def padding(self) -> int:
        """Rows and columns added on each side; with stride 1 the size stays the same."""
        return self.kernel // 2

    def record(self, dtype: str) -> OpRecord:
        """Return it as an op."""
        image = (self.images, self.size, self.size, self.channels)
        kernel, stride, padding = ((n, n) for n in (self.kernel, self.stride, self.padding))
        return conv_record(self.pass_, dtype, image, self.filters, kernel, stride, padding)

    def columns(self) -> dict[str, object]:
        """Return its columns in a row of the CSV."""
        named = {"kernel": self.kernel, "stride": self.stride, "padding": self.padding}
        return {
            "op": "conv", "pass": self.pass_, "images": self.images, "height": self.size, "width": self.size,
            "channels": self.channels, "filters": self.filters, **{name: f"{n}x{n}" for name, n in named.items()},
        }  # fmt: skip

    def passes(self) -> Iterator[Conv]:
        """Yield its three passes."""
        return (replace(self, pass_=name) for name in ("forward", "dgrad", "wgrad"))


SQUARES: Final = tuple(MatMul(size, size, size) for size in (256, 512, 1024, 2048, 4096, 8192))
SKINNY: Final = tuple(
    MatMul(*size)
    for size in (
        (16, 8192, 8192), (16, 16384, 16384), (32, 4096, 16384), (64, 16384, 8192), (128, 4096, 4096), (8, 4096, 4096),
        (8192, 64, 8192), (16384, 16384, 64), (8192, 8192, 32), (16384, 32, 4096), (65536, 128, 128), (262144, 64, 64),
    )
)  # fmt: skip
"""Limited by memory: the share of the bandwidth is fitted to these."""
BATCHED: Final = (
    MatMul(512, 512, 64, 96, transpose_b=True), MatMul(512, 64, 512, 96), MatMul(2048, 2048, 128, 16, False, True),
    MatMul(128, 128, 64, 384, transpose_b=True), MatMul(1024, 128, 1024, 32),
)  # fmt: skip
LARGE: Final = ((4096, 4096, 4096), (2048, 2048, 2048), (8192, 2048, 4096), (2048, 4096, 8192))
CONVS: Final = (
    Conv(64, 56, 64, 64, 3), Conv(64, 56, 256, 64, 1), Conv(64, 56, 64, 256, 1), Conv(64, 28, 128, 128, 3),
    Conv(64, 28, 128, 512, 1), Conv(64, 28, 256, 256, 3, 2), Conv(64, 14, 256, 256, 3), Conv(64, 14, 1024, 256, 1),
    Conv(64, 14, 256, 1024, 1), Conv(64, 14, 512, 512, 3, 2), Conv(64, 7, 512, 512, 3), Conv(64, 7, 512, 2048, 1),
    Conv(32, 112, 32, 64, 3), Conv(16, 64, 128, 256, 5, 2), Conv(256, 28, 64, 128, 5), Conv(32, 32, 192, 192, 3),
    Conv(8, 128, 96, 96, 3), Conv(128, 16, 320, 320, 3), Conv(32, 56, 128, 256, 3, 2), Conv(256, 28, 64, 64, 3),
)  # fmt: skip
"""From image classifiers, image-to-image networks and GANs; 12 per pass remain if a quarter is held out."""
UNALIGNED_CONVS: Final = (Conv(64, 28, 128, 128, 3), Conv(64, 14, 256, 512, 1), Conv(32, 56, 64, 64, 3))
FEW_CHANNEL_CONVS: Final = (
    Conv(64, 224, 3, 64, 7, 2), Conv(256, 28, 1, 64, 5, 2), Conv(256, 28, 8, 1, 5), Conv(64, 32, 3, 32, 3),
    Conv(256, 28, 64, 4, 5), Conv(64, 128, 4, 64, 5, 2),
)  # fmt: skip
"""First and last layers of image models, where cuDNN's behaviour is least known."""


def drawn(count: int) -> list[MatMul]:
    """Return random aligned GEMMs with sizes from 16 to 16,384, in all `TRANSPOSES`; always the same ones."""
    draw = random.Random(SEED)
    found = []
    for number in range(count):
        m, n, k = (8 * round(2 ** draw.uniform(low, 11)) for low in (1, 3, 3))
        found.append(MatMul(m, n, k, 1, *TRANSPOSES[number % 3]))
    return found


def unaligned(size: tuple[int, int, int]) -> list[MatMul]:
    """Return GEMMs near a size, with each contiguous dimension of each layout at each alignment below 8.

    Contiguous are k and n of A[m, k] B[k, n], k of A[m, k] B[n, k]^T, and m and n of A[k, m]^T B[k, n]; always n of the
    result. A result with odd rows alone has just one such dimension, in the slowest layout, so it comes in three sizes.
    """
    found = []
    for transposed, names in zip(TRANSPOSES, ("kn", "kn", "mn"), strict=True):
        for name in names:
            only_result = transposed == (False, True) and name == "n"
            for alignment in (*ALIGNMENTS, *ODD) if only_result else ALIGNMENTS:
                sizes = dict(zip("mnk", size, strict=True))
                sizes[name] += alignment - 8
                found.append(MatMul(sizes["m"], sizes["n"], sizes["k"], 1, *transposed))
    return found


def both_transposed(size: tuple[int, int, int]) -> list[MatMul]:
    """Return GEMMs of the layout `BOTH`: a size, and near it each dimension at each alignment below 8.

    Contiguous are m of A[k, m]^T, k of B[n, k]^T, and n of the result.
    """
    m, n, k = size
    less = [8 - alignment for alignment in ALIGNMENTS]
    near = [other for d in less for other in ((m - d, n, k), (m, n - d, k), (m, n, k - d))]
    return [MatMul(*sizes, 1, *BOTH) for sizes in (size, *near)]


def unaligned_convs(base: Conv) -> list[Conv]:
    """Return all passes of a convolution with channels, filters or both at each alignment below 8."""
    found = []
    for alignment in ALIGNMENTS:
        less = 8 - alignment
        for channels, filters in ((less, 0), (0, less), (less, less)):
            other = replace(base, channels=base.channels - channels, filters=base.filters - filters)
            found += list(other.passes())
    return found
