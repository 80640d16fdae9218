"""What to say of a size that is not aligned: what it costs, as measured, and when to leave it alone.

The factors are public measurements of large matrix multiplications (autoheuristic padmm data, cuBLAS of 2024; H100
from few points): compute-bound, all dimensions of at least 1024. Nothing public measures unaligned convolutions.
"""

from __future__ import annotations

import re
from typing import Final

from tcprobe.analysis.context import Context

IMAGE_CHANNELS: Final = 4  # DeepBench on V100 and T4: float16 with C=1 padded to 8 ran 5-8 times slower, C=3 no faster
TINY_HEAD: Final = 16  # a product with so few columns reads its operands once and is bound by memory

# dtype family -> (elements, share of the aligned rate) of the largest power of two that divides the size, on an A100
_A100: Final[dict[str, dict[int, int | None]]] = {"16-bit": {1: 40, 2: 63, 4: 63}, "tf32": {1: 61, 2: 61, 4: None}}
_H100: Final[dict[str, dict[int, int | None]]] = {"16-bit": {1: 22, 2: 45, 4: 45}}
_NOTHING: Final = "nothing"
_GRAY: Final = "1 input channel is an image's, and padding it"


def explain(dimension: str, size: int, convolution: bool, dtype: str | None, context: Context) -> str:
    """Return one sentence or two on a size that is no multiple of what its dtype asks for.

    Args:
        dimension: as in the contract of `bad_sizes`.
        size: as it is.
        convolution: the layer convolves.
        dtype: of the op's inputs.
        context: the GPU that ran or is judged against.
    """
    channels, filters = dimension.startswith("channels"), dimension.startswith("filters")
    if channels and size <= IMAGE_CHANNELS:
        image = f"{size} input channels are an image's, and padding them" if size > 1 else _GRAY
        return f"{_NOTHING}: {image} to 8 ran slower where it was measured (V100, T4)"
    if dimension == "units" and size <= TINY_HEAD:
        return f"{_NOTHING}: so small a head is bound by memory and launches, not by arithmetic"
    if dimension == "features" and size <= TINY_HEAD:
        return f"{_NOTHING}: a product with so small a dimension is bound by memory and launches, not by arithmetic"
    if (idle := _idle(dtype, context)) is not None:
        return idle
    if filters and size <= IMAGE_CHANNELS:
        return (
            f"{size} output channel{'s' * (size > 1)}: cuDNN may run the weight gradient on a CUDA-core kernel; give "
            f"the convolution 8 filters, keep the first{f' {size}' if size > 1 else ''} (slice) and measure"
        )
    if dimension in ("inputs", "channels", "channels per group"):
        return f"{_measured(size, convolution, dtype, context)}; it follows from what feeds this layer: change it there"
    return _measured(size, convolution, dtype, context)


def is_harmless(advice: str) -> bool:
    """Return whether the advice is to leave the size alone."""
    return advice.startswith(_NOTHING)


def aligned_share(advice: str) -> int:
    """Return the percentage of the aligned rate that the advice names, 100 where it names none."""
    found = re.search(r"about (\d+) % of the aligned rate", advice)
    return int(found[1]) if found else 100


def _idle(dtype: str | None, context: Context) -> str | None:
    """Return why no size matters to this dtype on this GPU; None where sizes matter."""
    if not context.nvidia or context.tensor_cores == "no":
        return f"no effect: {context.name or 'this GPU'} has no Tensor Cores"
    if _family(dtype, context) is None:
        return "no effect while this layer computes in float32 without TF32; it counts once precision is lowered"
    return None


def _family(dtype: str | None, context: Context) -> str | None:
    if dtype in ("float16", "bfloat16", "half"):
        return "16-bit"
    if dtype in ("float32", "float"):
        capable = context.compute_capability is None or context.compute_capability >= (8, 0)
        return "tf32" if capable and context.tf32_allowed is not False else None
    return "other"


def _measured(size: int, convolution: bool, dtype: str | None, context: Context) -> str:
    family = _family(dtype, context) or "other"
    hopper = context.compute_capability is not None and context.compute_capability[0] == 9
    table = _H100 if hopper and family in _H100 else _A100
    power = size & -size
    share = table.get(family, {}).get(power)
    name, kind = ("an H100" if table is _H100 else "an A100"), ("TF32" if family == "tf32" else "16-bit")
    if family == "tf32" and power == 4:
        return "runs on Tensor Cores at full rate in TF32, which asks for multiples of 4; float16 asks for 8"
    if share is None:
        return "runs on Tensor Cores more slowly; how much is not measured for this dtype"
    rate = f"about {share} % of the aligned rate ({kind}, large products on {name})"
    if convolution:
        return f"runs on Tensor Cores more slowly: not measured for convolutions; matrix products reach {rate}"
    return f"runs on Tensor Cores at {rate}"
