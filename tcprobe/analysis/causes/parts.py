"""Tell from a kernel's name what part it has in its op: it multiplies, changes layout or type, or helps."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, Literal

from tcprobe.analysis.kernels.rule import MULTIPLIES, NameParts
from tcprobe.analysis.kernels.verdict import by_name, may_multiply

Part = Literal["multiplies", "layout", "helps"]

# Words of a kernel's own name that say nothing but that it moves elements to other places or types: layout changes of
# cuDNN and XLA (nchwToNhwc, tensorTransform, input_transpose_fusion), casts, copies of PyTorch's .to(). A layout alone
# (BiasNHWCKernel) is where a kernel works, and a permutation of rows (permute_2D_data) is no change of layout.
_LAYOUT: Final = re.compile(
    r"(?:^|_)(?:transposes?|transposed|permutation_kernel\w*|n[cdhw0-9]+_(?:to|2)_n[cdhw0-9]+|cast\w*|cvt|convert\w*?"
    r"|reformat|tensor_transform|direct_copy|(?:(?:loop|input|wrapped)_)?copy(?:_fusion)?)(?:_|\d|$)"
)
# The same of PyTorch, TensorRT, Eigen (casts) and TensorFlow (transpositions)
_COPIES: Final = re.compile(
    r"direct_copy_kernel|genericReformat::|TensorConversionOp|SwapDimension\dAnd\dInTensor|ShuffleInTensor\d"
)
_NOT_COPIES: Final = re.compile(r"(?:^|_)(?:cat|recat|batched|async)(?:_|$)")
_MULTIPLIES: Final = re.compile(MULTIPLIES, re.VERBOSE)
_DIRECT: Final = re.compile(r"direct|grouped|depthwise|c1_k1|convolve|(?:^|_)[dw]grad\d?d?_(?:alg|engine)")


@lru_cache(maxsize=65536)
def part_of(kernel: str) -> Part:
    """Return what part a kernel has in an op that multiplies matrices, by its name alone.

    A kernel of whose name no rule knows that it moves or maps data counts as one that multiplies.
    """
    verdict, texts = by_name(kernel), NameParts.of(kernel).texts
    words = texts["words"]
    moves = (_LAYOUT.search(words) and not _NOT_COPIES.search(words)) or _COPIES.search(texts["whole"])
    if verdict.uses_tc != "yes" and moves and not _MULTIPLIES.search(words):
        return "layout"
    return "multiplies" if may_multiply(verdict) else "helps"


@lru_cache(maxsize=65536)
def is_direct(kernel: str) -> bool:
    """Say whether a kernel computes a convolution without turning it into a matrix product, by its name.

    cuDNN's grouped, direct and depthwise kernels, and its older ones for few channels (``implicit_convolve_sgemm``).
    """
    return _DIRECT.search(NameParts.of(kernel).texts["words"]) is not None
