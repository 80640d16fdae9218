"""TC319, TC320: Tensor Core kernels whose last wave of blocks is partly empty, and those that a size keeps slow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tcprobe.rules.base import Says
from tcprobe.rules.run.base import Run, names_in
from tcprobe.schema.advice import Advice, AdviceKind
from tcprobe.schema.statement import Both, Name, Statement, say

LEAST_PCT: Final = 5.0  # of the kernel time
FILL: Final = (
    "Change the batch or the sizes of these products so that their blocks fill the GPU a whole number of times, or "
    "give it larger products"
)
ALIGN: Final = (
    "Find the sizes of these products that are no multiple of 16 bytes (8 elements of 16 bits, 4 of TF32), a view or a "
    "leading dimension among them, and align them: tcprobe profile or NVTX ranges with shapes tell which"
)


def _fill_waves(kernel: str, waves: float, blocks_per_sm: int, tile: str, **_: Any) -> Both:
    each = f"{blocks_per_sm} block{'s' * (blocks_per_sm > 1)} of {tile} on each SM"
    why = (
        "the last wave of Tensor Core kernels is partly empty, above all of ",
        Name(kernel),
        f": {waves:.2f} waves of {each}",
    )
    return Both(FILL, why)


def _align_kernel(kernel: str, alignment: int, rate_pct: int, timed: str, **_: Any) -> Both:
    loads = f"{alignment} element{'s' * (alignment > 1)} at once"
    rate = f"large products of such sizes were timed at {rate_pct} % of an aligned one's rate ({timed})"
    return Both(
        ALIGN, ("Tensor Core kernels load less than 16 bytes at once, above all ", Name(kernel), f" ({loads}); {rate}")
    )


SAYS: Final[Says] = {"fill_waves": _fill_waves, "align_kernel": _align_kernel}


def tc319(run: Run) -> Iterator[Advice]:
    """Yield one item where the empty part of last waves may take a noticeable part of the kernel time."""
    found = run.facts.tail
    if found is None or run.kernel_ns <= 0 or run.tuning is not None or 100.0 * found.ns < LEAST_PCT * run.kernel_ns:
        return
    concern = run.part_of(found.ns, found.ns, "full waves")
    said: Statement[AdviceKind] = say(
        "fill_waves", kernel=found.kernel, waves=found.waves, blocks_per_sm=found.blocks_per_sm, tile=found.tile
    )
    yield Advice("TC319", said, concern, found.where, draws_on=names_in(found.where))


def tc320(run: Run) -> Iterator[Advice]:
    """Yield one item where Tensor Core kernels of no op are misaligned; TC306 speaks of those with shapes."""
    found = run.facts.misaligned
    if found is None or run.kernel_ns <= 0 or run.tuning is not None:
        return
    concern = run.part_of(found.ns, found.at_most_ns, "aligned rates")
    said: Statement[AdviceKind] = say(
        "align_kernel", kernel=found.kernel, alignment=found.alignment, rate_pct=found.rate_pct, timed=found.timed
    )
    yield Advice("TC320", said, concern)
