"""TC319, TC320: Tensor Core kernels whose last wave of blocks is partly empty, and those that a size keeps slow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tcprobe.formatting import many, shorten
from tcprobe.rules.run.base import Run, RunSays, names_in
from tcprobe.rules.words import NAME_WIDTH, Act, short_name
from tcprobe.schema.advice import Advice, AdviceKind
from tcprobe.schema.statement import Statement, say

LEAST_PCT: Final = 5.0  # of the kernel time
ALIGN: Final = ("views and leading dimensions too", "tcprobe profile or NVTX ranges with shapes tell which")


def _fill_waves(_: Advice, kernel: str, waves: float, blocks_per_sm: int, tile: str) -> Act:
    each = f"{many(blocks_per_sm, 'block')} of {tile} on each SM"
    why = f"{waves:.2f} waves of {each}: the last is partly empty, above all of {shorten(kernel, NAME_WIDTH)}"
    return Act("Fill the last wave of blocks", ("batch or sizes", "larger products"), (why,))


def _align_kernel(_: Advice, kernel: str, alignment: int, rate_pct: int, timed: str) -> Act:
    loads = f"{short_name(kernel)} loads {many(alignment, 'element')} at once"
    rate = f"large products of such sizes were timed at {rate_pct} % of an aligned one's rate ({timed})"
    return Act("Align the odd sizes: multiples of 8 (TF32: 4)", ALIGN, (loads, rate))


SAYS: Final[RunSays] = {"fill_waves": _fill_waves, "align_kernel": _align_kernel}


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
