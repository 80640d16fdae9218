"""What must hold of NVTX ranges of steps, whichever tool heard them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Final, Literal

STEP: Final = re.compile(r"step (\d+)")
Fault = Literal["marked twice", "out of order", "marked though unknown"]


def steps_in(names: Sequence[str]) -> list[int]:
    """Return the numbers of the steps among the names of ranges, in their order."""
    return [int(match[1]) for name in names if (match := STEP.fullmatch(name))]


def faults(marked: Sequence[int], known: Collection[int]) -> dict[Fault, list[int]]:
    """Return what is wrong with marks, by kind, with the numbers of the steps.

    Args:
        marked: numbers of the steps that have ranges, as these began.
        known: the steps of steps.csv.
    """
    found: dict[Fault, list[int]] = {
        "marked twice": [number for number, times in Counter(marked).items() if times > 1],
        "out of order": [late for early, late in pairwise(marked) if late < early],
        "marked though unknown": sorted(set(marked) - set(known)),
    }
    return {kind: numbers for kind, numbers in found.items() if numbers}
