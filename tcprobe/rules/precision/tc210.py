"""TC210: finds loss scaling for a precision that does not need it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tcprobe.rules.base import RuleDoc, Says, Subject
from tcprobe.rules.precision.policy import GUIDE, SIXTEEN_BITS, by_hand, policy_of, setters, touched, wrappers
from tcprobe.rules.precision.tree import Tree, keyword, number_of, tree_of
from tcprobe.schema.finding import Finding
from tcprobe.schema.finding_kinds import FindingKind
from tcprobe.schema.statement import Statement, say

if TYPE_CHECKING:
    from tcprobe.source.source import Source

DOC: Final = RuleDoc(
    code="TC210",
    name="needless-loss-scaling",
    summary="The loss is scaled although bfloat16 or float32 needs no scaling.",
    explanation=(
        "Loss scaling lifts gradients out of float16's underflow, below 6e-8. bfloat16 has the exponent of float32 and "
        "reaches down to 1e-38, so nothing underflows that would not in float32 too. The scaling does no harm to "
        "the numbers, but each step checks every gradient for infinities and branches on the result.\n\n"
        "A wrapper inside a condition, for scripts that offer several precisions, is not listed."
    ),
    severity="note: it costs a pass over the gradients, and no accuracy.",
    bad=(
        'keras.mixed_precision.set_global_policy("mixed_bfloat16")\n'
        "optimizer = keras.mixed_precision.LossScaleOptimizer(keras.optimizers.Adam())\n"
    ),
    good=('keras.mixed_precision.set_global_policy("mixed_bfloat16")\noptimizer = keras.optimizers.Adam()\n'),
    sources=(
        f"{GUIDE}, section Loss scaling: not needed for mixed_bfloat16",
        "Keras 3.15.1, keras/src/trainers/trainer.py, compile: wraps the optimizer for mixed_float16 alone",
        "bfloat16: 8 bits of exponent, smallest normal 1.2e-38",
    ),
)
SAYS: Final[Says] = {
    "needless_api": ("{name} under the policy {policy}", "{dtype} needs no loss scaling"),
    "needless_scale": ("a loss scale of {scale:g} under the policy {policy}", "{dtype} needs no loss scaling"),
}

_NO_NEED: Final = ("mixed_bfloat16", "bfloat16", "float32")


def check(subject: Subject) -> Iterator[Finding]:
    """Yield unconditional loss scaling in files under a policy that certainly does not need it."""
    policy = policy_of(subject)
    if policy not in _NO_NEED or _mixes(subject):
        return
    dtype = "bfloat16" if "bfloat16" in policy else "float32"
    for source, tree in touched(subject):
        for node, given in _scalings(source, tree):
            if not tree.conditional(node):
                says = _says(given, policy, dtype)
                yield Finding(DOC.code, says, source.place(node), "note", dtype=dtype)


def _says(given: str | float, policy: str, dtype: str) -> Statement[FindingKind]:
    if isinstance(given, str):
        return say("needless_api", name=given, policy=policy, dtype=dtype)
    return say("needless_scale", scale=given, policy=policy, dtype=dtype)


def _mixes(subject: Subject) -> bool:
    """Say whether float16 may be meant too: by another policy, a condition, or a layer's own dtype."""
    for source in subject.sources.values():
        for setter in setters(source):
            if setter.policy not in _NO_NEED or tree_of(source).conditional(setter.node):
                return True
    return any(layer.dtype == SIXTEEN_BITS[0] for layer in subject.model.layers)


def _scalings(source: Source, tree: Tree) -> Iterator[tuple[ast.expr, str | float]]:
    """Yield what scales a loss, with the name of the API, or the factor if the user's own code does."""
    for call in wrappers(source, tree):
        yield call, "LossScaleOptimizer"
    if "loss_scale_factor" in source.text:
        for node in tree.calls:
            if number_of(source, keyword(node, "loss_scale_factor")) is not None:
                yield node, "loss_scale_factor"
    yield from by_hand(source, tree)
