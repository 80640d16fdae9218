"""TC313: says that warm-up is, or may be, among the counted steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tcprobe.rules.base import RuleDoc, Says, Template
from tcprobe.rules.run.base import RunSubject
from tcprobe.rules.run.facts import WarmUp
from tcprobe.rules.run.waiting import spoken_of
from tcprobe.schema.advice import Advice, AdviceKind, Concern
from tcprobe.schema.statement import say

DOC: Final = RuleDoc(
    code="TC313",
    name="warm-up-counted",
    summary="Warm-up is among the counted steps, or nothing tells that it is not.",
    explanation=(
        "The first steps of a run trace functions, compile, allocate memory and tune kernels. tcprobe leaves them out "
        "where a profile marks enough steps to tell them apart. It cannot where the steps to count were asked for, "
        "where the profiler was started too early, or where a profile marks one step or none.\n\n"
        "First steps that are slower than the others are said to be there, and come first: figures of all the counted "
        "steps are then not of a usual one. Of one step alone nobody knows, and the item comes last. TC302 says it of "
        "autotuning, TC301 of compiling that the GPU waits for."
    ),
    severity="it comes first where first steps are slower, last where one step or none is marked; it saves nothing.",
    bad="with tf.profiler.experimental.Profile(folder):\n    train_step(images, labels)\n",
    good=(
        "for _ in range(10):\n    train_step(images, labels)\n"
        "with tf.profiler.experimental.Profile(folder):\n"
        "    for step in range(20):\n"
        "        with tf.profiler.experimental.Trace('train', step_num=step, _r=1):\n"
        "            train_step(images, labels)\n"
    ),
    sources=("TensorFlow guide, Optimize TensorFlow performance using the Profiler: profile steps after warm-up",),
)


def _slow(fields: Mapping[str, Any]) -> Template:
    first = "the first counted step takes" if fields["slow"] == 1 else "the first {slow} counted steps take up to"
    order = "Leave the first steps out (--iter-start), or start the profiler later"
    return order, f"{first} {{slowest_ns!d}}, the others {{usual_ns!d}}: warm-up is in the figures"


SAYS: Final[Says] = {
    "skip_warm_up": _slow,
    "profile_steps": lambda fields: (
        "Profile several steps after warm-up, each marked (tcprobe profile does)",
        f"the profile marks {'one step' if fields['steps'] == 1 else 'no step'}: warm-up may be in all figures",
    ),
}


def check(subject: RunSubject) -> Iterator[Advice]:
    """Yield one item where first steps are slow, or where one step or none is marked; none where TC302 speaks."""
    found = subject.facts.warm_up
    if found is None or subject.tuning is not None or "compile" in spoken_of(subject):
        return
    if found.slow:
        yield _item(
            subject, "skip_warm_up", found, slow=found.slow, slowest_ns=found.slowest_ns, usual_ns=found.usual_ns
        )
    elif found.steps is None or found.steps <= 1:
        yield _item(subject, "profile_steps", found)


def _item(subject: RunSubject, kind: AdviceKind, found: WarmUp, **fields: Any) -> Advice:
    length = None if subject.waiting is None else subject.waiting.length
    return Advice(
        DOC.code, say(kind, steps=found.steps, **fields), Concern(100.0, "step", None, None, subject.step_ns, length)
    )
