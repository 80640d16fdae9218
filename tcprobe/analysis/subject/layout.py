"""Find the kernels that change layout or type."""

from __future__ import annotations

from typing import Final

import numpy as np

from tcprobe.analysis.subject.places import costliest_op
from tcprobe.rules.run.facts import LayoutWork
from tcprobe.schema.profile import Profile

CASTS: Final = ("Cast", "convert", "aten::to", "aten::_to_copy")
"""Types of ops that change the type of numbers: of TensorFlow, XLA and PyTorch."""
TRANSPOSES: Final = ("Transpose", "transpose", "aten::contiguous", "aten::transpose", "aten::permute")
"""Likewise, of ops that change the order of dimensions."""


def layout_work(profile: Profile) -> LayoutWork | None:
    """Return the kernels whose cause is the layout, and those of ops that do nothing else; None without any."""
    kernels = profile.require("kernels")
    types = kernels.names("op_type")
    spent = np.nan_to_num(kernels.numbers("sum_ns"))
    casts = types.among(*CASTS) & (spent > 0)
    mine = (kernels.names("cause").among("layout") | casts | types.among(*TRANSPOSES)) & (spent > 0)
    if not mine.any():
        return None
    place = costliest_op(profile, kernels.take(mine), spent[mine])
    total, in_casts = float(spent[mine].sum()), float(spent[casts].sum())
    return LayoutWork(total, in_casts, place.where, place.op_type, place.ns)
