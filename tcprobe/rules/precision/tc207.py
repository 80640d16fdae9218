"""TC207: finds an epsilon or mask constant that float16 cannot represent."""

from __future__ import annotations

import ast
import re
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tcprobe.rules.base import RuleDoc, Says, Subject
from tcprobe.rules.precision.flow import Flow
from tcprobe.rules.precision.policy import GUIDE, HALF_POLICIES, name_of, number_of, touched
from tcprobe.rules.precision.reach import Policies
from tcprobe.rules.precision.tree import Parents, is_layer_class
from tcprobe.schema.finding import Finding, Severity
from tcprobe.schema.finding_kinds import FindingKind
from tcprobe.schema.statement import say
from tcprobe.source.scopes import FunctionNode

if TYPE_CHECKING:
    from tcprobe.source.source import Source

DOC: Final = RuleDoc(
    code="TC207",
    name="constant-beyond-float16",
    summary="A constant in a layer's call() is too large or too small for float16.",
    explanation=(
        "A Python number that meets a float16 tensor becomes float16. Past 65504 it is infinite: a mask of -1e9 is "
        "-inf, mask * -1e9 is NaN wherever the mask is 0, and a row that is masked whole has a softmax of NaN. Below "
        "3e-8 it is 0, so that x + 1e-8 guards nothing; up to 6.1e-5 it is a subnormal number with fewer digits.\n\n"
        "The epsilon of Keras' own normalisation layers and of optimizers works in float32: never listed. A function "
        "that casts to float32, or asks for the dtype, is trusted."
    ),
    severity=(
        "warning where the constant becomes 0, or is infinite and a factor (0 times it is NaN); note where it is "
        "infinite otherwise, which is NaN only in a row that is masked whole, and where it is subnormal."
    ),
    bad=(
        'keras.mixed_precision.set_global_policy("mixed_float16")\n\n'
        "class Attention(keras.layers.Layer):\n    def call(self, q, k, mask):\n"
        "        scores = tf.matmul(q, k, transpose_b=True) + mask * -1e9\n        return tf.nn.softmax(scores)\n"
    ),
    good=(
        'keras.mixed_precision.set_global_policy("mixed_float16")\n\n'
        "class Attention(keras.layers.Layer):\n    def call(self, q, k, mask):\n"
        "        scores = tf.matmul(q, k, transpose_b=True) + mask * -3e4\n        return tf.nn.softmax(scores)\n"
    ),
    sources=(
        f"{GUIDE}, section float16 and bfloat16: range 6e-8 to 65504",
        "IEEE 754 binary16: largest 65504, smallest normal 2**-14, smallest subnormal 2**-24",
        "Keras 3.15.1, keras/src/layers/activations/softmax.py: masks with -3e4 in float16, -1e9 otherwise; "
        "normalization/batch_normalization.py, group_normalization.py: upcast to float32",
        "Measured with TensorFlow 2.21: float16 0 + 1e-8 is 0, 0 + -1e9 and tf.where(m, x, -1e9) are -inf",
    ),
)
_ENDS: Final = "in float16, which ends at 65504"
SAYS: Final[Says] = {
    "zero_in_half": ("{constant} is 0 in float16 and guards nothing", "use 1e-4, or cast to float32"),
    "subnormal_in_half": (
        "{constant} is a subnormal number in float16, with few digits",
        "use 1e-4, or cast to float32",
    ),
    "minus_infinite_times_zero": (f"{{constant}} is -inf {_ENDS}, and 0 times it is NaN", "use -3e4"),
    "minus_infinite": (f"{{constant}} is -inf {_ENDS}", "use -3e4"),
    "infinite_times_zero": (f"{{constant}} is inf {_ENDS}, and 0 times it is NaN", "use 3e4"),
    "infinite": (f"{{constant}} is inf {_ENDS}", "use 3e4"),
}

LARGEST_FLOAT16: Final = 65504.0
SMALLEST_NORMAL: Final = 2.0**-14
_TRUSTED: Final = re.compile(r"float32|float64|\bdtype\b|finfo")
_FILLS: Final = re.compile(r"(?:tensorflow|keras\.ops)\.(?:where|fill|full_like|ones_like)")
_BOUNDS: Final = re.compile(
    r"(?:tensorflow(?:\.math)?|keras\.ops|keras\.backend)\.(?:maximum|minimum|clip_by_value|clip|add|divide_no_nan)"
)


def check(subject: Subject) -> Iterator[Finding]:
    """Yield the constants in layer code that float16 cannot represent, without duplicates."""
    policies = Policies(subject)
    for source, tree in touched(subject):
        for function in _layer_code(tree):
            if policies.at(source, function) in HALF_POLICIES and not _TRUSTED.search(ast.unparse(function)):
                yield from _function(source, tree, function)


def _layer_code(tree: Parents) -> Iterator[FunctionNode]:
    """Yield the call methods of layers and models, and the functions in the file that they call by name."""
    wanted = [f for f in tree.functions() if f.name == "call" and _owner_is_layer(tree, f)]
    named = {f.name: f for f in tree.functions() if tree.class_of(f) is None}
    methods = {(tree.class_of(f), f.name): f for f in tree.functions() if tree.class_of(f) is not None}
    seen: dict[FunctionNode, None] = {}
    while wanted:
        function = wanted.pop()
        if function in seen:
            continue
        seen[function] = None
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in named:
                wanted.append(named[node.func.id])
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                own = methods.get((tree.class_of(function), node.func.attr))
                wanted.extend([own] if own is not None and ast.unparse(node.func.value) == "self" else [])
    yield from seen


def _owner_is_layer(tree: Parents, function: FunctionNode) -> bool:
    owner = tree.class_of(function)
    return owner is not None and is_layer_class(owner) and "autocast" not in ast.unparse(owner)


def _function(source: Source, tree: Parents, function: FunctionNode) -> Iterator[Finding]:
    flow = Flow(source, tree, function)
    done: set[ast.AST] = set()
    for node in flow.visited:
        for constant, others in _pairs(source, node):
            value = number_of(source, constant)
            if value is None or constant in done:
                continue
            if abs(value) > LARGEST_FLOAT16 and (
                _whole(source, constant) or (isinstance(node, ast.Call) and _bounds(source, node))
            ):
                continue
            verdict = _verdict(value, node, sure=any(flow.kinds.get(other) == "half" for other in others))
            if verdict is not None:
                done.add(constant)
                kind, severity = verdict
                place = source.place(constant)
                says = say(kind, constant=source.segment(place))
                yield Finding(DOC.code, says, place, severity, dtype="float16")


def _whole(source: Source, node: ast.expr) -> bool:
    """Say whether a number is a positive integer, as in arithmetic on ids and hashes."""
    known = source.known(node)
    return known is not None and isinstance(known.value, int) and known.value > 0


def _bounds(source: Source, node: ast.Call) -> bool:
    """Say whether a call limits values: an infinite limit has no effect and does no harm."""
    return _BOUNDS.fullmatch(name_of(source, node.func)) is not None


def _pairs(source: Source, node: ast.expr) -> Iterator[tuple[ast.expr, list[ast.expr]]]:
    """Yield each constant that an expression combines with tensors, and those tensors."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub | ast.Mult):
        operands = [node.left, node.right]
    elif isinstance(node, ast.Call):
        name = name_of(source, node.func)
        if not _FILLS.fullmatch(name) and not _BOUNDS.fullmatch(name):
            return
        operands = list(node.args)
    else:
        return
    constants = [operand for operand in operands if number_of(source, operand) is not None]
    others = [operand for operand in operands if operand not in constants]
    for constant in constants if others else []:
        yield constant, others


def _verdict(value: float, node: ast.expr, *, sure: bool) -> tuple[FindingKind, Severity] | None:
    """Judge a constant by its use; a small one only if it meets a value that is certainly float16."""
    size = abs(value)
    half = to_half(size)
    if half is None:
        return _infinite(value, node) if value < 0 or sure else None
    if size == 0 or size >= SMALLEST_NORMAL or not sure:
        return None
    if half == 0:
        return "zero_in_half", "warning"
    return "subnormal_in_half", "note"


def _infinite(value: float, node: ast.expr) -> tuple[FindingKind, Severity]:
    """Judge a constant beyond float16's range: a factor turns 0 into NaN, a fill spoils only fully masked rows."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return "minus_infinite_times_zero" if value < 0 else "infinite_times_zero", "warning"
    return "minus_infinite" if value < 0 else "infinite", "note"


def to_half(value: float) -> float | None:
    """Return a number rounded to float16; None if it becomes infinite."""
    try:
        half: float = struct.unpack("<e", struct.pack("<e", value))[0]
    except OverflowError:
        return None
    return half
