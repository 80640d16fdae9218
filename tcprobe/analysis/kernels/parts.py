"""Tell by a kernel's name what part it has in an op that multiplies matrices, and what a compiler's fusion holds."""

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
# The same of PyTorch, TensorRT, Eigen (casts, but not where they compute too) and TensorFlow (transpositions)
_COPIES: Final = re.compile(
    r"(?:direct|b?float\d+)_copy_kernel|genericReformat::|SwapDimension\dAnd\dInTensor|ShuffleInTensor\d"
    r"|^(?!.*(?:TensorCwise(?:Unary|Binary|Ternary)|Tensor(?:Tuple)?Reduc(?:tion|er))Op).*TensorConversionOp",
    re.DOTALL,
)
# Compilers name a fusion after the ops in it (loop_add_convert_fusion, triton_poi_fused__to_copy_add_3,
# __myl_CastMul_0x...): it changes layout or type alone where each of them does, or reads or writes in another place.
_FUSED: Final = re.compile(
    r"(?:[a-z]+_)??(?P<ops>[a-z_]+)_fusion[._\d]*|triton_[a-z]{3}_fused_(?P<too>\w+?)(?:_\d+)?"
    r"|_{2}myl_(?P<myelin>[a-z_]+?)(?:_myl\w*|_)?"
)
_MOVES: Final = frozenset(
    (
        *("loop", "input", "wrapped", "copy", "transpose", "convert", "bitcast", "reshape", "broadcast", "slice"),
        *("concatenate", "reverse", "pad", "to", "clone", "permute", "view", "expand", "squeeze", "unsqueeze", "t"),
        *("cast", "resh", "tran", "repl", "slic", "conc", "move"),  # TensorRT's (Myelin)
        *("as", "strided", "select", "alias", "detach", "element", "type", "prims", "unsafe", "contiguous"),
    )
)
# Kernels around the product of an algorithm for convolutions: they turn images into matrices, and transform operands
_TRANSFORMS: Final = re.compile(
    r"(?:^|_)(?:im2col\w*|col2im\w*|flip_filter|winograd_\w*(?:data|filter|output|delta|tiles)\w*)(?:_|\d|$)"
)
_FOURIER: Final = re.compile(r"^fft[12]d_[rc]2[rc]_")
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
        return "helps" if _computes_too(words) else "layout"
    beside = verdict.uses_tc != "yes" and _TRANSFORMS.search(words) and "gemm" not in words
    return "multiplies" if may_multiply(verdict) and not beside else "helps"


def fused_ops(words: str) -> str:
    """Return the ops that the words of a compiler's fusion list, as they do; empty where it is none or lists none."""
    fused = _FUSED.fullmatch(words)
    return "" if fused is None else fused["ops"] or fused["too"] or fused["myelin"]


def _computes_too(words: str) -> bool:
    """Say whether a compiler's fusion, by the ops in its name, does more than change layout or type."""
    return any(op and not op.isdecimal() and op not in _MOVES for op in fused_ops(words).split("_"))


def transforms(kernel: str) -> bool:
    """Say whether a kernel transforms what a convolution multiplies, by its name: im2col, Winograd, cuDNN's FFT."""
    words = NameParts.of(kernel).texts["words"]
    return (_TRANSFORMS.search(words) or _FOURIER.search(words)) is not None


@lru_cache(maxsize=65536)
def is_direct(kernel: str) -> bool:
    """Say whether a kernel computes a convolution without turning it into a matrix product, by its name.

    cuDNN's grouped, direct and depthwise kernels, and its older ones for few channels (``implicit_convolve_sgemm``).
    """
    return _DIRECT.search(NameParts.of(kernel).texts["words"]) is not None
