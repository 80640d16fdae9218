"""TC316: finds key nodes that fire once an epoch, so that what counts as a step is none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tcprobe.rules.base import RuleDoc, Says
from tcprobe.rules.run.base import RunSubject
from tcprobe.schema.advice import Advice, Concern
from tcprobe.schema.statement import say

DOC: Final = RuleDoc(
    code="TC316",
    name="key-node-per-epoch",
    summary="The key node fires once an epoch, or once in several steps: what counts as a step is none.",
    explanation=(
        "DLProf counts a step at each run of one op, the key node. An op that runs once an epoch (the assignment of an "
        "epoch's counter, a metric that is reset) divides the run into epochs, and all figures of a step, and all "
        "savings of one, are of that many steps. It shows: most other ops ran a multiple as often.\n\n"
        "`tcprobe find-key-node` names an op that runs once in each step; `--key-node auto` has "
        "`tcprobe profile` find it in a short run."
    ),
    severity="it comes before all that saves time of a step: nothing in the report is of one.",
    bad="# dlprof --mode=tensorflow1 --key_node=AssignVariableOp_1 python train.py: 41 calls, other ops 492\n",
    good="# tcprobe profile --profiler dlprof --key-node auto train.py\n",
    sources=(
        "a public report of DLProf 0.13: the key node AssignVariableOp_1 ran 41 times, 332 other ops 492 times each",
    ),
)
SAYS: Final[Says] = {
    "key_node": (
        "Choose a key node that runs once a step (tcprobe find-key-node): no figure of a step is of one",
        "most ops run {times:,} times in what the key node counts as a step: an epoch, or several steps",
    )
}


def check(subject: RunSubject) -> Iterator[Advice]:
    """Yield one item where most ops ran several times in what the key node counts as a step."""
    times = subject.facts.epoch_steps
    if times is not None:
        length = None if subject.waiting is None else subject.waiting.length
        concern = Concern(100.0, "step", None, None, subject.step_ns, length)
        yield Advice(DOC.code, say("key_node", times=times), concern)
