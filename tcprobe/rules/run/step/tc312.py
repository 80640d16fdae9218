"""TC312: finds dynamic loss scaling that costs a noticeable part of small steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tcprobe.rules.base import RuleDoc, Says, Template
from tcprobe.rules.run.base import RunSubject
from tcprobe.schema.advice import LAUNCHES, WAITING, Advice
from tcprobe.schema.statement import say

DOC: Final = RuleDoc(
    code="TC312",
    name="dynamic-loss-scale",
    summary="Dynamic loss scaling costs a noticeable part of a step.",
    explanation=(
        "In float16 small gradients become 0, so the loss is multiplied by a scale. With a dynamic scale each step "
        "looks whether every gradient is finite (IsFinite and All of each weight), and updates the weights only then: "
        "a branch whose condition the host must read before it launches more. In large steps that is nothing. In steps "
        "of a few milliseconds it can be most of them: a classifier of MNIST took 5.3 ms a step with a dynamic scale "
        "and 1.0 ms with a fixed one.\n\n"
        "A fixed scale of 1024 suits most small models. Watch the loss: too large a scale gives NaN, too small a one "
        "loses small gradients. bfloat16 needs no scale. What shows in the profile is a part of the cost alone: the "
        "branch also keeps XLA from compiling the update together with the rest."
    ),
    severity="it counts the time of those ops, and the waiting that follows the copy of their answer to the host.",
    bad=(
        'keras.mixed_precision.set_global_policy("mixed_float16")\n'
        "model.compile(optimizer=keras.optimizers.Adam(1e-3), loss=loss)\n"
    ),
    good=(
        'keras.mixed_precision.set_global_policy("mixed_float16")\n'
        "model.compile(optimizer=keras.optimizers.Adam(1e-3, loss_scale_factor=1024.0), loss=loss, "
        "auto_scale_loss=False)\n"
    ),
    sources=(
        "TensorFlow 2.21 with Keras 3, traced: four weights add 4 IsFinite, 5 All and the branch cond/then to a step",
        "Keras API, Optimizer: loss_scale_factor; Model.compile: auto_scale_loss wraps the optimizer of a "
        "mixed_float16 model",
        "TensorFlow 2 API, tf.keras.mixed_precision.LossScaleOptimizer: dynamic, initial_scale",
    ),
)
ORDER: Final = (
    "Take a fixed loss scale, such as 1024, and watch the loss (too large a scale gives NaN). Keras 3: "
    "loss_scale_factor=1024.0 of the optimizer, with compile(auto_scale_loss=False). Keras 2: "
    "LossScaleOptimizer(optimizer, dynamic=False, initial_scale=1024)"
)


def _says(fields: Mapping[str, Any]) -> Template:
    waits = ", and the GPU waits {waiting_ns!d} for the host to read the answer" if fields["waiting_ns"] else ""
    looks = "dynamic loss scaling looks at the gradients in {ops:,} ops, {ns!d} a step"
    return ORDER, f"{looks}{waits}: {{at_most_ns!d}} of a step of {{step_ns!d}} as far as it shows, {{at_most_pct!p}}"


SAYS: Final[Says] = {"fix_scale": _says}


def check(subject: RunSubject) -> Iterator[Advice]:
    """Yield one item where the ops of dynamic loss scaling are found and the length of a step is known."""
    found, waiting = subject.facts.scaling, subject.waiting
    if (
        found is None
        or waiting is None
        or not subject.steps
        or waiting.length == "capture"
        or subject.tuning is not None
    ):
        return
    spent, waits = subject.in_step(found.ns) or 0.0, subject.waits_in_step(found.waiting_ns) or 0.0
    concern = subject.of_step(spent + min(waits, waiting.idle_ns), "loss scaling", found.ns / subject.steps)
    yield Advice(
        DOC.code,
        say(
            "fix_scale",
            ops=found.ops,
            ns=spent,
            waiting_ns=waits,
            at_most_ns=concern.at_most_ns,
            at_most_pct=concern.share_pct,
            step_ns=waiting.step_ns,
        ),
        concern,
        draws_on=frozenset([LAUNCHES, WAITING] if waits else [LAUNCHES]),
    )
