"""TC310: finds steps that are made of many tiny kernels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tcprobe.rules.base import RuleDoc, Says, Template
from tcprobe.rules.run import words
from tcprobe.rules.run.base import RunSubject
from tcprobe.rules.run.facts import TINY_NS
from tcprobe.rules.run.waiting import spoken_of
from tcprobe.schema.advice import LAUNCHES, WAITING, Advice
from tcprobe.schema.statement import say

LEAST: Final = 50  # tiny kernels in a step: fewer take less than a millisecond of launches
LEAST_PCT: Final = 5.0  # of the step
MANY: Final = 0.5  # of the launches

DOC: Final = RuleDoc(
    code="TC310",
    name="tiny-kernels",
    summary="A step launches many kernels of a few microseconds.",
    explanation=(
        f"A launch takes the host several microseconds. Kernels shorter than {TINY_NS // 1000} us hardly cover that: "
        "the GPU waits between them, or is about to as soon as the host does anything else. Most are element-wise ops, "
        "each of which reads and writes all of its operands. A compiler fuses them: fewer launches, and less memory "
        "moved. CUDA graphs launch many kernels at once and make them no fewer.\n\n"
        "TC301 speaks instead where launching is much of what the GPU waits for. Where XLA compiled the step already, "
        "or CUDA graphs launch most kernels, the advice is to give each kernel more work. A profiler makes launches "
        "slower than they are."
    ),
    severity="it counts the time of these kernels and of the short stretches between kernels, at most.",
    bad="@tf.function\ndef train_step(images, labels):\n    ...\n",
    good="@tf.function(jit_compile=True)\ndef train_step(images, labels):\n    ...\n",
    sources=(
        "NVIDIA developer blog, Getting Started with CUDA Graphs: a kernel of 2.9 us takes 3.8 us with launches that "
        "overlap, 9.6 us with a wait after each",
        "TensorFlow guide, Optimize TensorFlow GPU performance: tf.function with jit_compile fuses kernels",
        "PyTorch tutorials, Performance Tuning Guide: fuse operations, CUDA graphs",
    ),
)
FUSE: Final[dict[str | None, str]] = {
    None: "Launch fewer and longer kernels: let a compiler fuse them, or launch them by CUDA graphs",
    "tensorflow": "Launch fewer and longer kernels: let XLA fuse them (jit_compile=True)",
    "pytorch": "Launch fewer and longer kernels: torch.compile fuses them, CUDA graphs launch many at once "
    "(torch.compile(mode='reduce-overhead'))",
    "jax": "Launch fewer and longer kernels: jax.jit of the whole step fuses them",
}
DONE: Final = "Give each kernel more work: a larger batch, or fewer and wider layers"
"""Where kernels were fused, or are launched together, already."""


def _says(fields: Mapping[str, Any]) -> Template:
    order = DONE if fields["compiled"] else words.said(FUSE, fields["framework"])
    short = ", and the GPU waits {short_ns!d} in stretches between kernels" if fields["short_ns"] else ""
    kernels = "{tiny:,.0f} of {launches:,.0f} kernels of a step take less than {limit_ns!d} each, {tiny_ns!d} in all"
    return order, f"{kernels}{short}: at most {{at_most_ns!d}} of a step of {{step_ns!d}}, {{at_most_pct!p}}"


SAYS: Final[Says] = {"fuse_kernels": _says}


def check(subject: RunSubject) -> Iterator[Advice]:
    """Yield one item where most kernels of a step are tiny, and they and the waiting between kernels cost time."""
    found, waiting = subject.facts.tiny, subject.waiting
    if found is None or waiting is None or waiting.length == "capture" or not subject.steps or subject.tuning:
        return
    tiny, launches = found.tiny / subject.steps, found.launches / subject.steps
    if tiny < LEAST or tiny < MANY * launches or "launch" in spoken_of(subject):
        return
    spent, short = subject.in_step(found.tiny_ns) or 0.0, subject.waits_in_step(subject.short_ns) or 0.0
    concern = subject.of_step(spent + short, "launches", found.tiny_ns / subject.steps)
    if concern.share_pct < LEAST_PCT:
        return
    yield Advice(
        DOC.code,
        say(
            "fuse_kernels",
            framework=subject.framework,
            compiled=subject.compiled or found.graphs,
            tiny=tiny,
            launches=launches,
            limit_ns=TINY_NS,
            tiny_ns=found.tiny_ns / subject.steps,
            short_ns=short,
            at_most_ns=concern.at_most_ns,
            at_most_pct=concern.share_pct,
            step_ns=waiting.step_ns,
        ),
        concern,
        draws_on=frozenset([LAUNCHES, WAITING] if short else [LAUNCHES]),
    )
