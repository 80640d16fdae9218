"""TC318: kernels that multiply nothing and follow one another, which one kernel could do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from tcprobe.rules.run import kernels
from tcprobe.rules.run.base import TINY_NS, ChainWork, Run, RunSays
from tcprobe.rules.run.waiting import named_work
from tcprobe.rules.words import Act, Ways, listed, way
from tcprobe.schema.advice import COPIES, LAUNCHES, Advice
from tcprobe.schema.kinds import KernelKind
from tcprobe.schema.statement import say

LEAST_PCT: Final = 5.0  # of the kernel time
MOST_KINDS: Final = 3  # that the sentence names
FUSE: Final[Ways] = {
    None: ("a compiler",),
    "tensorflow": ("jit_compile=True",),
    "pytorch": ("torch.compile",),
    "jax": ("jax.jit of the whole step",),
}
PLURALS: Final[dict[KernelKind, str]] = {
    "elementwise": "elementwise kernels", "copy": "copies", "normalisation": "norms", "softmax": "softmax",
    "reduction": "reductions", "random": "random numbers",
}  # fmt: skip


def _fuse_chain(
    _: Advice, framework: str | None, kinds: tuple[KernelKind, ...], launches: float, chains: float, **f: Any
) -> Act:
    norm = ("a fused norm",) if "normalisation" in kinds and framework in (None, "pytorch") else ()
    when = f"{' a GPU' if f['gpus'] > 1 else ''}{' a step' if f['of_a_step'] else ''}"
    why = [f"{launches:,.0f} launches{when}, one after the other in {chains:,.0f} chains"]
    why.append(listed(PLURALS[kind] for kind in kinds[:MOST_KINDS]))
    if f["moved_bytes"]:
        why.append(
            f"up to {100.0 * f['again_bytes'] / f['moved_bytes']:.0f} % of the bytes moved only pass between them"
        )
    return Act("Fuse elementwise ops", (*way(FUSE, framework), *norm), tuple(why))


SAYS: Final[RunSays] = {"fuse_chain": _fuse_chain}


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
