"""TC318: kernels that multiply nothing and follow one another, which one kernel could do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tcprobe.rules.base import Says
from tcprobe.rules.run import kernels
from tcprobe.rules.run.base import TINY_NS, ChainWork, Run
from tcprobe.rules.run.waiting import Parts, named_work
from tcprobe.rules.words import listed, way
from tcprobe.schema.advice import COPIES, LAUNCHES, Advice
from tcprobe.schema.kinds import KernelKind
from tcprobe.schema.statement import Both, say

LEAST_PCT: Final = 5.0  # of the kernel time
MOST_KINDS: Final = 3  # that the sentence names
FUSE: Final[dict[str | None, str]] = {
    None: "Let a compiler make one kernel of those that follow one another",
    "tensorflow": "Let XLA make one kernel of those that follow one another (jit_compile=True)",
    "pytorch": "Let torch.compile make one kernel of those that follow one another",
    "jax": "Put all of the step into one jax.jit, so that XLA makes one kernel of those that follow one another",
}
NORM: Final[dict[str | None, str]] = {
    None: ", or take a fused norm",
    "pytorch": ", or take a fused norm (one kernel with the addition before it)",
    "tensorflow": "",
    "jax": "",
}
"""Where some of these kernels normalise."""
PLURALS: Final[dict[KernelKind, str]] = {
    "elementwise": "elementwise kernels", "copy": "copies", "normalisation": "norms", "softmax": "softmax",
    "reduction": "reductions", "random": "random numbers",
}  # fmt: skip


def _fuse_chain(framework: str | None, kinds: tuple[KernelKind, ...], launches: float, chains: float, **f: Any) -> Both:
    order = way(FUSE, framework) + (way(NORM, framework) if "normalisation" in kinds else "")
    what = listed(PLURALS[kind] for kind in kinds[:MOST_KINDS])
    when = f"{' a GPU' if f['gpus'] > 1 else ''}{' a step' if f['of_a_step'] else ''}"
    count: Parts = (f"{launches:,.0f} kernels{when} ({what}) follow one another in {chains:,.0f} chains",)
    if f["moved_bytes"] is None:
        return Both(order, count)
    again = 100.0 * f["again_bytes"] / f["moved_bytes"] if f["moved_bytes"] else 0.0
    return Both(order, (*count, f", and up to {again:.0f} % of the bytes that they move only pass between them"))


SAYS: Final[Says] = {"fuse_chain": _fuse_chain}


def _said_of_launches(run: Run, found: ChainWork) -> bool:
    """Return whether these kernels are tiny, and TC301 or TC310 says already that a compiler fuses such kernels."""
    tiny = found.ns < TINY_NS * found.launches
    return tiny and ("launch" in named_work(run) or any(True for _ in kernels.tc310(run)))


def tc318(run: Run) -> Iterator[Advice]:
    """Yield one item where such chains take a noticeable part of the kernel time; none of steps with autotuning."""
    found = run.facts.chains
    if found is None or run.kernel_ns <= 0 or run.tuning is not None or run.compiled:
        return
    share = 100.0 * found.ns / run.kernel_ns
    if share < LEAST_PCT or _said_of_launches(run, found):
        return
    concern = run.part_of(found.ns, found.at_most_ns, "bandwidth" if found.at_most_ns < found.ns else "kernel time")
    steps = (run.steps or 1.0) * run.gpus
    yield Advice(
        "TC318",
        say(
            "fuse_chain",
            framework=run.facts.framework,
            kinds=found.kinds,
            launches=found.launches / steps,
            chains=found.chains / steps,
            gpus=run.gpus,
            moved_bytes=found.moved_bytes,
            again_bytes=found.again_bytes,
            of_a_step=run.steps is not None and (run.waiting is None or run.waiting.length != "capture"),
        ),
        concern,
        found.where,
        draws_on=found.ops | {LAUNCHES} | ({COPIES} if "copy" in found.kinds else set()),
    )
