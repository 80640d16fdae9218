"""TC302: says that the counted steps hold autotuning, so that no figure is of a usual step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from tcprobe.rules.base import RuleDoc, Says
from tcprobe.rules.run.base import RunSubject
from tcprobe.schema.advice import Advice, Where
from tcprobe.schema.statement import say

DOC: Final = RuleDoc(
    code="TC302",
    name="autotuning-in-step",
    summary="The counted steps hold autotuning: they are no usual steps.",
    explanation=(
        "In the first step a framework lets cuDNN or cuBLAS run every algorithm for each shape, keeps the fastest, and "
        "uses that from then on. Such a step has ten times the kernels of a later one and several algorithms for one "
        "op, most of which never run again. Kernel times, shares and all advice that rests on them are then those of "
        "the tuning.\n\n"
        "Where the profile holds other steps, the tuned one is left out and nothing is said. Else the report is of "
        "that step alone: profile later ones."
    ),
    severity="it comes first: until another step is profiled, no figure says what the others would save.",
    bad="with tf.profiler.experimental.Profile(folder):\n    train_step(images, labels)\n",
    good=(
        "for _ in range(10):\n    train_step(images, labels)\n"
        "with tf.profiler.experimental.Profile(folder):\n    train_step(images, labels)\n"
    ),
    sources=(
        "a public profile of a first step on a T4: 735 kernels, 45 to 58 in one call of a convolution, 1.3 s in all; "
        "a later step of the same model has 190 of 0.16 s",
    ),
)
SAYS: Final[Says] = {
    "profile_later": (
        "Profile later steps, after warm-up: nothing else in this report is about a usual step",
        "the step holds autotuning: {kernels:,} kernels tried for {ops:,} ops, in one call of {worst_op!n} "
        "{worst_calls:,}",
    )
}


def check(subject: RunSubject) -> Iterator[Advice]:
    """Yield one item where the window holds autotuning."""
    tuning = subject.tuning
    if tuning is None:
        return
    yield Advice(
        DOC.code,
        say(
            "profile_later",
            ops=tuning.ops,
            kernels=tuning.kernels,
            worst_op=tuning.worst_op,
            worst_calls=tuning.worst_calls,
        ),
        replace(subject.concern(tuning.share_pct, "kernel_time", tuning.sum_ns), at_most_ns=None),
        Where(op=tuning.worst_op),
    )
