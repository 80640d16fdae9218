"""Find the kernels off the Tensor Cores that may be parts of products, where the source names no ops."""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from tcprobe.analysis.kernels.names import COMMUNICATES
from tcprobe.analysis.kernels.rule import MULTIPLIES, NameParts
from tcprobe.analysis.kernels.verdict import by_name
from tcprobe.schema.profile import Profile

OF_NO_PRODUCT: Final = frozenset({"framework-kernel", *COMMUNICATES})
"""Rules about kernels that no library runs for a product: element-wise ones and copies of frameworks, NCCL."""
_MULTIPLIES: Final = re.compile(MULTIPLIES, re.VERBOSE)


def unnamed(profile: Profile) -> tuple[float, str | None]:
    """Return the window's kernel time off the Tensor Cores that may be of products, and the costliest that multiplies.

    0 where the source names ops. What helps a product (im2col, changes of layout) counts: with another kernel it may go
    as well. Of a source without kernels all time off the Tensor Cores counts.
    """
    share = _off_pct(profile)
    if share is None or len(profile.require("ops")):
        return 0.0, None
    row = profile.figure("kernel_time_ns")
    whole = 0.0 if row is None or row["value"] is None else float(row["value"])
    kernels = profile.require("kernels")
    if not len(kernels):
        return whole * share / 100.0, None
    off = kernels.take(kernels.names("uses_tc").among("no"))
    names, spent = off.names("kernel"), np.nan_to_num(off.numbers("sum_ns"))
    sums = np.bincount(names.ids + 1, weights=spent, minlength=len(names.names) + 1)[1:].tolist()
    found = {n: ns for n, ns in zip(names.names, sums, strict=True) if ns and by_name(n).rule not in OF_NO_PRODUCT}
    multiply = [n for n in found if _MULTIPLIES.search(NameParts.of(n).texts["words"])]
    return min(whole * share / 100.0, sum(found.values())), min(multiply, key=lambda n: (-found[n], n), default=None)


def _off_pct(profile: Profile) -> float | None:
    """Return the share of kernel time that surely ran off the Tensor Cores, 0-100; None where that is unknown."""
    row = profile.figure("tc_kernel_time_pct")
    most = None if row is None else row["value"] if row["high"] is None else row["high"]
    return None if most is None else 100.0 - float(most)
