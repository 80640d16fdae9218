"""Find the kernels that change layout or type."""

from __future__ import annotations

import re
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tcprobe.analysis.subject.places import costliest_op
from tcprobe.gemm.ops import conv_like
from tcprobe.rules.run.facts import LayoutWork
from tcprobe.schema.columns import Table
from tcprobe.schema.profile import Profile

CASTS: Final = ("Cast", "convert", "aten::to", "aten::_to_copy")
"""Types of ops that change the type of numbers: of TensorFlow, XLA and PyTorch."""
TRANSPOSES: Final = ("Transpose", "transpose", "aten::contiguous", "aten::transpose", "aten::permute")
"""Likewise, of ops that change the order of dimensions."""
COPIES: Final = "aten::copy_"
"""PyTorch's casts and changes of layout (.to(), .contiguous()) all launch their kernels here; what keeps both is a copy
of memory, and no kernel."""
_CONVOLVES: Final = re.compile(r"(?i:conv(?!er)|nchw|nhwc|winograd)|(?<![A-Za-z])(?:fprop|[dw]grad)")
"""Convolutions of cuDNN and CUTLASS, and what cuDNN runs around them, by a kernel's name; no conversion."""
_COPIES: Final = re.compile(r"(?:direct|b?float\d+)_copy_kernel")
_CASTS: Final = re.compile(r"b?float\d+_copy_kernel|LoadWithCast|StoreWithCast")  # aten/src/ATen/native/cuda/Copy.cu


def layout_work(profile: Profile) -> LayoutWork | None:
    """Return the kernels whose cause is the layout, and those of ops that do nothing else; None without any."""
    kernels = profile.require("kernels")
    types = kernels.names("op_type")
    spent = np.nan_to_num(kernels.numbers("sum_ns"))
    copies = types.among(COPIES)
    casts = (types.among(*CASTS) | (copies & _named(kernels, _CASTS))) & (spent > 0)
    moves = types.among(*TRANSPOSES) | (copies & _named(kernels, _COPIES))
    mine = (kernels.names("cause").among("layout") | casts | moves) & (spent > 0)
    if not mine.any():
        return None
    place = costliest_op(profile, kernels.take(mine), spent[mine])
    total, in_casts = float(spent[mine].sum()), float(spent[casts].sum())
    return LayoutWork(total, in_casts, place.where, place.op_type, place.ns, _convolves(profile))


def _convolves(profile: Profile) -> bool:
    """Return whether the run holds a convolution, by the type of an op that ran kernels or by a kernel's name."""
    kernels = profile.require("kernels")
    ran = kernels.take(kernels.numbers("sum_ns") > 0)
    types, names = set(ran.names("op_type").tolist()), set(ran.names("kernel").tolist())
    return any(map(conv_like, types)) or any(_CONVOLVES.search(str(name)) for name in names)


def _named(kernels: Table, pattern: re.Pattern[str]) -> NDArray[np.bool_]:
    """Return which kernels have a name in which the pattern is found."""
    names = kernels.names("kernel")
    found = np.array([*(pattern.search(name) is not None for name in names.names), False], np.bool_)
    told: NDArray[np.bool_] = found[names.ids]
    return told
