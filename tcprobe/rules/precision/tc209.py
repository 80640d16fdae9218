"""TC209: finds sums, exponentials and powers of activations in 16 bits."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tcprobe.rules.base import RuleDoc, Says, Subject
from tcprobe.rules.precision.flow import Flow
from tcprobe.rules.precision.policy import GUIDE, half_of, name_of, number_of, touched
from tcprobe.rules.precision.reach import Policies
from tcprobe.rules.precision.tree import keyword
from tcprobe.schema.finding import Finding, Severity
from tcprobe.schema.finding_kinds import FindingKind
from tcprobe.schema.statement import say

if TYPE_CHECKING:
    from tcprobe.source.source import Source

DOC: Final = RuleDoc(
    code="TC209",
    name="reduction-in-16-bits",
    summary="A layer's call() sums, squares or exponentiates 16-bit activations without a cast to float32.",
    explanation=(
        "float16 ends at 65504: a sum of a thousand values of 100, the square of 256 and exp of 12 are infinite, and "
        "the gradient of infinity is NaN. bfloat16 does not overflow there, but has 8 bits of precision: a sum of many "
        "terms loses the small ones. TensorFlow's automatic mixed precision keeps these ops in float32 for that "
        "reason; under a Keras policy your own call() has to: cast the operand to float32 and the result back.\n\n"
        "Only operands that are 16-bit beyond doubt are listed: results of layers, and what is made of them. "
        "keras.ops.mean computes in float32 by itself, and so do TensorFlow's softmax cross-entropies."
    ),
    severity=(
        "warning for a sum over the whole tensor, a norm, or a sum of squares, in float16; note for exp, powers, means "
        "and sums along an axis, which overflow only where values are large, and for bfloat16."
    ),
    bad=(
        'keras.mixed_precision.set_global_policy("mixed_float16")\n\n'
        "class Penalty(keras.layers.Layer):\n    def call(self, x):\n"
        "        self.add_loss(0.01 * tf.reduce_sum(tf.square(x)))\n        return x\n"
    ),
    good=(
        'keras.mixed_precision.set_global_policy("mixed_float16")\n\n'
        "class Penalty(keras.layers.Layer):\n    def call(self, x):\n"
        "        self.add_loss(0.01 * tf.reduce_sum(tf.square(tf.cast(x, tf.float32))))\n        return x\n"
    ),
    sources=(
        "TensorFlow, core/grappler/optimizers/auto_mixed_precision_lists.h, deny list: Exp, "
        "Expm1, L2Loss, Mean, Pow, Sum",
        f"{GUIDE}, section float16 and bfloat16: float16 overflows past 65504",
        "Measured with TensorFlow 2.21 on a CPU, float16: reduce_sum and reduce_mean of 100 values of 1000 are inf, "
        "keras.ops.mean of them is 1000",
        "TensorFlow 2.21, python/ops/nn_ops.py: softmax cross-entropies cast float16 logits to float32",
    ),
)
SAYS: Final[Says] = {
    "reduction_overflows": (
        "{function} of {dtype} activations, which overflows past 65504",
        "cast the operand to float32 first",
    ),
    "reduction_imprecise": (
        "{function} of {dtype} activations, with 8 bits of precision",
        "cast the operand to float32 first",
    ),
}

_SUMS: Final = frozenset({"tensorflow.reduce_sum", "tensorflow.math.reduce_sum", "keras.ops.sum"})
_SQUARES: Final = frozenset({"tensorflow.square", "tensorflow.math.square", "keras.ops.square"})
_NORMS: Final = frozenset({"tensorflow.norm", "tensorflow.linalg.norm", "tensorflow.nn.l2_loss"})
_SINGLE: Final = frozenset(
    {
        "tensorflow.exp",
        "tensorflow.math.exp",
        "tensorflow.math.expm1",
        "tensorflow.pow",
        "tensorflow.math.pow",
        "tensorflow.reduce_mean",
        "tensorflow.math.reduce_mean",
        "keras.ops.exp",
        "keras.ops.expm1",
        "keras.ops.power",
    }
)
_WATCHED: Final = _SUMS | _SQUARES | _NORMS | _SINGLE


def check(subject: Subject) -> Iterator[Finding]:
    """Yield the reductions in call() methods whose operand is certainly 16-bit, once per line and op."""
    policies = Policies(subject)
    for source, tree in touched(subject):
        for function in tree.functions():
            half = half_of(policies.at(source, function)) if function.name == "call" else None
            if half is not None and tree.class_of(function) is not None:
                yield from _function(source, Flow(source, tree, function), half)


def _function(source: Source, flow: Flow, half: str) -> Iterator[Finding]:
    """Yield the outermost reductions in one function."""
    calls = [node for node in flow.visited if isinstance(node, ast.Call)]
    found = {node: severity for node in calls if (severity := _severity(source, flow, node))}
    inside = {node for call in found for node in ast.walk(call) if node is not call}
    for node, severity in found.items():
        if node not in inside:
            yield _finding(source, node, half, severity if half == "float16" else "note")


def _severity(source: Source, flow: Flow, node: ast.Call) -> Severity | None:
    """Return how bad a call is in float16; None if it is harmless or its operand is not certainly 16-bit."""
    name = name_of(source, node.func)
    operand = node.args[0] if node.args else None
    if name not in _WATCHED or operand is None or keyword(node, "dtype") is not None:
        return None
    if flow.kinds.get(operand) != "half":
        return None
    if name in _NORMS:
        return "warning"
    if name in _SUMS:
        whole = len(node.args) == 1 and keyword(node, "axis") is None
        return "warning" if whole or _is_square(source, operand) else "note"
    return "note"


def _is_square(source: Source, node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        power = isinstance(node.op, ast.Pow) and number_of(source, node.right) is not None
        return power or (isinstance(node.op, ast.Mult) and ast.unparse(node.left) == ast.unparse(node.right))
    return isinstance(node, ast.Call) and name_of(source, node.func) in _SQUARES


def _finding(source: Source, node: ast.Call, half: str, severity: Severity) -> Finding:
    kind: FindingKind = "reduction_overflows" if half == "float16" else "reduction_imprecise"
    says = say(kind, function=ast.unparse(node.func), dtype=half)
    return Finding(DOC.code, says, source.place(node), severity, dtype=half)
