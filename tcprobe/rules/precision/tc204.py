"""TC204: finds a layer or product hard-coded to float32 under a mixed policy."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tcprobe.rules.base import RuleDoc, Says, Subject
from tcprobe.rules.precision.policy import GUIDE, half_of, has_cores_for, policy_of, saved, touched, with_saving
from tcprobe.rules.precision.tree import Tree, name_of
from tcprobe.schema.finding import Edit, Finding, Fix
from tcprobe.schema.model import Layer
from tcprobe.schema.place import Place
from tcprobe.schema.statement import About, say

if TYPE_CHECKING:
    from tcprobe.source.source import Source

DOC: Final = RuleDoc(
    code="TC204",
    name="float32-in-heavy-layer",
    summary="A layer that multiplies matrices is hard-coded to float32 although the policy is mixed.",
    explanation=(
        "dtype='float32' takes a layer out of mixed precision: its products run as TF32 at half the rate of 16 bits "
        "where the GPU has TF32, on CUDA cores where it has not (V100, T4), its activations take twice the memory, and "
        "casts stand on both sides. The same goes for a product in call() whose operand is cast to float32.\n\n"
        "Normalisation, softmax and losses are right in float32, and Keras' own BatchNormalization and "
        "LayerNormalization compute in it anyway; so is the model's last layer (TC201), which is never listed here."
    ),
    severity="from the predicted time that 16 bits would save; note where it cannot be predicted.",
    bad=(
        'keras.mixed_precision.set_global_policy("mixed_float16")\n'
        'x = keras.layers.Dense(4096, activation="relu", dtype="float32")(x)\n'
        "x = keras.layers.Dense(10)(x)\n"
    ),
    good=(
        'keras.mixed_precision.set_global_policy("mixed_float16")\n'
        'x = keras.layers.Dense(4096, activation="relu")(x)\n'
        "x = keras.layers.Dense(10)(x)\n"
    ),
    sources=(
        f"{GUIDE}, section Building the model: dtype='float32' overrides the policy of a layer",
        "TensorFlow, tf.config.experimental.enable_tensor_float_32_execution: TF32 needs compute capability 8.0",
        "NVIDIA A100 datasheet: 156 TFLOP/s dense in TF32, 312 in FP16 and BF16",
    ),
    fixable=True,
)
SAYS: Final[Says] = {
    "layer_in_float32": ("{subject} is hard-coded to float32 under a mixed policy", "drop the dtype"),
    "product_in_float32": (
        "{function} multiplies in float32 under a mixed policy, because an operand is cast",
        "cast the result",
    ),
    "sizes_unknown": "its sizes are not known",
    "compute_in_policy": "compute {subject} in the policy's dtype",
}

_PRODUCTS: Final = re.compile(
    r"tensorflow\.(?:linalg\.)?(?:matmul|einsum)|tensorflow\.(?:tensordot|nn\.conv(?:[123]d|olution))"
    r"|keras\.ops\.(?:matmul|einsum|dot|tensordot|conv)"
)
_CASTS: Final = frozenset({"tensorflow.cast", "keras.ops.cast", "keras.backend.cast"})


def check(subject: Subject) -> Iterator[Finding]:
    """Yield the layers, and products in the user's own code, that float32 keeps from 16 bits."""
    half = half_of(policy_of(subject))
    if half is None or not has_cores_for(subject.step.target.gpu, half):
        return
    consumed = {name for layer in subject.model.layers for name in layer.inputs_from}
    for layer in subject.model.layers:
        inside = layer.is_last is False or (layer.is_last is None and layer.name in consumed)
        if layer.dtype == "float32" and inside and "dtype" in layer.arguments:
            yield from _layer(subject, layer, half)
    for source, tree in touched(subject):
        yield from _casts(subject, source, tree, half)


def _layer(subject: Subject, layer: Layer, half: str) -> Iterator[Finding]:
    products = [subject.model.products[i] for i in subject.step.products_of(layer.name)]
    if not products:
        return
    gain = saved(subject, products, half)
    if gain is not None and gain.ns.high <= 0:
        return
    finding = Finding(
        code=DOC.code,
        says=say("layer_in_float32", subject=About(layer.class_name, layer.name)),
        place=layer.arguments["dtype"],
        severity=None if gain is not None else "note",
        layer=layer.name,
        layer_class=layer.class_name,
        passes=tuple(dict.fromkeys(p.record.pass_ for p in products if p.record.pass_)),
        dtype="float32",
        fix=_fix(subject, layer),
    )
    yield with_saving(finding, subject, gain, "sizes_unknown")


def _fix(subject: Subject, layer: Layer) -> Fix | None:
    """Return the edit that drops the dtype and the comma before it; None if no argument precedes it."""
    place = layer.arguments["dtype"]
    source = subject.sources.get(place.file)
    call = source.call_at(layer.place.line, layer.class_name) if source is not None and layer.place else None
    if source is None or call is None or call.place != layer.place:
        return None
    given = sorted((source.place(node) for node in (*call.node.args, *call.node.keywords)), key=lambda p: p)
    own = next((source.place(k) for k in call.node.keywords if k.arg == "dtype"), None)
    index = given.index(own) if own is not None else 0
    before = given[index - 1]
    if own is None or not index or before.end_line is None or before.end_column is None:
        return None
    gap = Place(place.file, before.end_line, before.end_column, own.end_line, own.end_column)
    text = source.segment(gap)
    if "#" in text or "float32" not in text:
        return None
    return Fix(say("compute_in_policy", subject=About(layer.class_name, layer.name)), (Edit(gap, text, ""),))


def _casts(subject: Subject, source: Source, tree: Tree, half: str) -> Iterator[Finding]:
    """Yield the products in a layer's call with an operand cast to float32, in place or through its name."""
    for node in tree.calls:
        if not _PRODUCTS.fullmatch(name_of(source, node.func)):
            continue
        function = tree.function_of(node)
        operands = [op for op in node.args if _is_float32(source, tree, op)]
        if function is not None and function.name == "call" and operands:
            yield _product(subject, source, node, operands[0], half)


def _product(subject: Subject, source: Source, node: ast.Call, operand: ast.expr, half: str) -> Finding:
    place = source.place(node)
    products = [
        p for p in subject.model.products if p.place and (p.place.file, p.place.line) == (place.file, place.line)
    ]
    gain = saved(subject, products, half)
    finding = Finding(
        code=DOC.code,
        says=say("product_in_float32", function=ast.unparse(node.func)),
        place=source.place(operand),
        severity=None if gain is not None else "note",
        dtype="float32",
    )
    return with_saving(finding, subject, gain, "sizes_unknown")


def _is_float32(source: Source, tree: Tree, node: ast.expr) -> bool:
    """Say whether a value is cast to float32 in place or by the only assignment to its name in the function."""
    if isinstance(node, ast.Name):
        function = tree.function_of(node)
        values = [value for value in tree.assigned(node.id) if tree.function_of(value) is function]
        return len(values) == 1 and isinstance(values[0], ast.Call) and _is_float32(source, tree, values[0])
    if not isinstance(node, ast.Call) or name_of(source, node.func) not in _CASTS or len(node.args) != 2:
        return False
    target = node.args[1]
    known = source.known(target)
    return name_of(source, target) == "tensorflow.float32" or (known is not None and known.value == "float32")
