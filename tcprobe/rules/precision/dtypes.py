"""TC201, TC204, TC206: outputs in 16 bits, layers hard-coded to float32, and precisions that the GPU lacks."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from tcprobe.hardware import Gpu
from tcprobe.keras.catalogue import class_of
from tcprobe.keras.row import PREPARES
from tcprobe.rules.base import Says, Subject
from tcprobe.rules.precision.file import File, file_of
from tcprobe.rules.precision.policy import (
    NEEDED,
    SIXTEEN_BITS,
    call_of,
    half_of,
    has_cores_for,
    keras_major,
    policies_of,
    policy_of,
    saved,
    setters_of,
    touched,
    with_saving,
)
from tcprobe.schema.finding import Edit, Finding, FindingKind, Fix, Severity
from tcprobe.schema.model import Layer, Place, Product
from tcprobe.schema.statement import About, Both, Statement, say

SPLIT: Final[FindingKind] = "probabilities_in_half"
"""What is mended by a layer more, which only the whole file read again can prove."""
_PROBABILITIES: Final = ("softmax", "sigmoid")
_PRODUCTS: Final = re.compile(
    r"tensorflow\.(?:linalg\.)?(?:matmul|einsum)|tensorflow\.(?:tensordot|nn\.conv(?:[123]d|olution))"
    r"|keras\.ops\.(?:matmul|einsum|dot|tensordot|conv)"
)
_CASTS: Final = frozenset({"tensorflow.cast", "keras.ops.cast", "keras.backend.cast"})
_TURING: Final = (7, 5)
SAYS: Final[Says] = {
    "last_activation_in_half": lambda subject, activation, dtype: Both(
        f"{subject} ends the model with a {activation} in {dtype}", "give it dtype='float32'"
    ),
    "probabilities_in_half": lambda subject, activation, dtype: Both(
        f"{subject} ends the model with a {activation} in {dtype}",
        f"split off Activation('{activation}', dtype='float32')",
    ),
    "output_in_half": lambda subject, dtype: Both(
        f"{subject} gives the model's output in {dtype}",
        "end the model in float32, as with Activation('linear', dtype='float32')",
    ),
    "activation_split": lambda activation, subject: (
        f"compute the {activation} of {subject} in float32, in a layer of its own"
    ),
    "compute_in_float32": lambda subject: f"compute {subject} in float32",
    "layer_in_float32": lambda subject: Both(
        f"{subject} is hard-coded to float32 under a mixed policy", "drop the dtype"
    ),
    "product_in_float32": lambda function: Both(
        f"{function} multiplies in float32 under a mixed policy, because an operand is cast",
        "cast the result",
    ),
    "sizes_unknown": "its sizes are not known",
    "compute_in_policy": lambda subject: f"compute {subject} in the policy's dtype",
    "half_slower": lambda gpu, capability: Both(
        f"{gpu} has no Tensor Cores in spite of compute capability {capability}",
        "mixed precision was 2 to 4 times slower than float32 on its kind; use float32",
    ),
    "half_saves_memory": lambda gpu, capability, dtype: Both(
        f"{gpu} (compute capability {capability}) has no Tensor Cores",
        f"{dtype} saves memory, not time",
    ),
    "dtype_without_cores": lambda gpu, capability, dtype, since: Both(
        f"{gpu} (compute capability {capability}) has no {dtype} Tensor Cores, which came with {since}",
        f"use {'mixed_float16' if dtype == 'bfloat16' else 'float16 or bfloat16'}",
    ),
    "cores_idle_tf32_off": lambda gpu: Both(
        f"float32 never uses the Tensor Cores of {gpu} (TF32 is turned off)",
        "mixed_bfloat16 or mixed_float16 would",
    ),
    "cores_idle_without_tf32": lambda gpu: Both(
        f"float32 never uses the Tensor Cores of {gpu} (it has no TF32)",
        "mixed_float16 would",
    ),
}


def tc201(subject: Subject) -> Iterator[Finding]:
    """Yield the layers that give an output of the model in 16 bits."""
    layers = subject.model.layers
    # An attention's weights that a model gives too lie inside it; what an `Embedding` takes are numbers of rows.
    takers = [(one.name, (*one.inputs_from, *one.also_from)) for one in layers if one.kind != "Embedding"]
    inside = {name for taker, names in takers for name in names if _in_one_model(name, taker)}
    last = [one for one in layers if one.is_last and one.name not in inside and _computes(one.kind)]
    suspects = [layer for layer in last if layer.dtype in SIXTEEN_BITS]
    cast = bool(suspects) and _casts_outputs(subject)
    for layer in suspects:
        activation = _activation(layer)
        if activation not in _PROBABILITIES and cast:
            continue
        source = subject.sources.get(layer.place.file) if layer.place is not None else None
        major = keras_major(subject, file_of(source) if source is not None else None)
        yield Finding(
            code="TC201",
            says=_output(layer, activation),
            place=layer.arguments.get("activation") or layer.place,
            severity=_severity(layer, activation, major),
            layer=layer.name,
            layer_class=layer.class_name,
            dtype=layer.dtype,
            fix=_in_float32(subject, layer),
        )


def _in_one_model(one: str, other: str) -> bool:
    """Say whether two layers may be of one model: what a generator makes is its output, though another model judges."""
    models = [name.partition("/")[0] for name in (one, other) if "/" in name]
    return len(models) < 2 or models[0] == models[1]


def _computes(kind: str) -> bool:
    """Say whether what a class returns is of its compute dtype: a layer of the user's own may cast as it likes."""
    row = class_of(kind)
    return row.shape != "unknown" and row.kind not in PREPARES


def _activation(layer: Layer) -> str | None:
    if layer.kind == "Softmax":
        return "softmax"
    value = layer.config.get("activation")
    return value if isinstance(value, str) else None


def _severity(layer: Layer, activation: str | None, keras: int | None) -> Severity:
    loses = layer.dtype == "float16" and (activation in _PROBABILITIES or keras == 2)
    return "warning" if loses else "note"


def _output(layer: Layer, activation: str | None) -> Statement[FindingKind]:
    about = About(layer.class_name, layer.name)
    if activation not in _PROBABILITIES:
        return say("output_in_half", subject=about, dtype=layer.dtype)
    alone = class_of(layer.kind).kind == "activation"
    kind: FindingKind = "last_activation_in_half" if alone else SPLIT
    return say(kind, subject=about, activation=activation, dtype=layer.dtype)


def _casts_outputs(subject: Subject) -> bool:
    """Say whether a file casts to float32 outside a layer's call: it may be the model's output."""
    casts = ((file, node) for file in touched(subject) for node in file.called("cast") if len(node.args) == 2)
    return any(
        file.name(node.func).endswith(".cast") and not file.in_call(node) and "float32" in ast.unparse(node.args[1])
        for file, node in casts
    )


def _in_float32(subject: Subject, layer: Layer) -> Fix | None:
    """Return the edit that gives a last activation float32; None if more than that must change."""
    found = call_of(subject, layer)
    if class_of(layer.kind).kind != "activation" or found is None or "dtype" in layer.arguments:
        return None
    file, call = found
    place, text = call.place, file.segment(call.node)
    given = [*call.node.args, *call.node.keywords]
    if place != layer.place or place.end_line is None or place.end_column is None or not text.endswith(")"):
        return None
    if "dtype" in call.arguments or any(k.arg is None for k in call.node.keywords):
        return None
    comma = "" if not given or text[:-1].rstrip().endswith(",") else ", "
    at = Place(place.file, place.end_line, place.end_column - 1, place.end_line, place.end_column)
    edit = Edit(at, ")", f'{comma}dtype="float32")')
    return Fix(say("compute_in_float32", subject=About(layer.class_name, layer.name)), (edit,), safe=True)


def tc204(subject: Subject) -> Iterator[Finding]:
    """Yield the layers, and products in the user's own code, that float32 keeps from 16 bits."""
    half = half_of(policy_of(subject))
    if half is None or not has_cores_for(subject.step.target.gpu, half):
        return
    consumed = {name for layer in subject.model.layers for name in layer.inputs_from}
    for layer in subject.model.layers:
        inside = layer.is_last is False or (layer.is_last is None and layer.name in consumed)
        if layer.dtype == "float32" and inside and "dtype" in layer.arguments:
            yield from _hard_coded(subject, layer, half)
    for file in touched(subject):
        yield from _casts(subject, file, half)


def _hard_coded(subject: Subject, layer: Layer, half: str) -> Iterator[Finding]:
    products = [subject.model.products[i] for i in subject.step.products_of(layer.name)]
    found = _tc204(subject, say("layer_in_float32", subject=About(layer.class_name, layer.name)), products, half)
    if products and (found.saving_ns is None or found.saving_ns.high > 0):
        yield replace(
            found,
            place=layer.arguments["dtype"],
            layer=layer.name,
            layer_class=layer.class_name,
            passes=tuple(dict.fromkeys(p.record.pass_ for p in products if p.record.pass_)),
            fix=_in_policy(subject, layer),
        )


def _tc204(subject: Subject, says: Statement[FindingKind], products: Sequence[Product], half: str) -> Finding:
    gain = saved(subject, products, half)
    finding = Finding("TC204", says, severity=None if gain is not None else "note", dtype="float32")
    return with_saving(finding, subject, gain, "sizes_unknown")


def _in_policy(subject: Subject, layer: Layer) -> Fix | None:
    """Return the edit that drops the dtype and the comma before it; None if no argument precedes it."""
    found = call_of(subject, layer)
    if found is None or found[1].place != layer.place or layer.arguments["dtype"].file != layer.place.file:
        return None
    file, call = found
    given = sorted(file.place(node) for node in (*call.node.args, *call.node.keywords))
    own = next((file.place(k) for k in call.node.keywords if k.arg == "dtype"), None)
    index = given.index(own) if own is not None else 0
    before = given[index - 1]
    if own is None or not index or before.end_line is None or before.end_column is None:
        return None
    gap = Place(own.file, before.end_line, before.end_column, own.end_line, own.end_column)
    text = file.source.segment(gap)
    if "#" in text or "float32" not in text:
        return None
    return Fix(say("compute_in_policy", subject=About(layer.class_name, layer.name)), (Edit(gap, text, ""),))


def _casts(subject: Subject, file: File, half: str) -> Iterator[Finding]:
    """Yield the products in a layer's call with an operand cast to float32, in place or through its name."""
    for node in file.calls:
        if not _PRODUCTS.fullmatch(file.name(node.func)) or not file.in_call(node):
            continue
        if operands := [op for op in node.args if _is_float32(file, op)]:
            place, every = file.place(node), subject.model.products
            products = [p for p in every if p.place and (p.place.file, p.place.line) == (place.file, place.line)]
            found = _tc204(subject, say("product_in_float32", function=ast.unparse(node.func)), products, half)
            yield replace(found, place=file.place(operands[0]))


def _is_float32(file: File, node: ast.expr) -> bool:
    """Say whether a value is cast to float32 in place or by the only assignment to its name in the function."""
    if isinstance(node, ast.Name):
        function = file.function_of(node)
        values = [value for value in file.assigned(node.id) if file.function_of(value) is function]
        return len(values) == 1 and isinstance(values[0], ast.Call) and _is_float32(file, values[0])
    if not isinstance(node, ast.Call) or file.name(node.func) not in _CASTS or len(node.args) != 2:
        return False
    return file.name(node.args[1]) == "tensorflow.float32" or file.value(node.args[1]) == "float32"


def tc206(subject: Subject) -> Iterator[Finding]:
    """Yield at most one finding: what the target GPU cannot do or leaves idle."""
    dtype, target = _dtype(subject), subject.step.target
    places = [setter.place for setter in setters_of(subject)]
    place = places[0] if len(places) == 1 else None  # where the policy is set
    if dtype in NEEDED and not has_cores_for(target.gpu, dtype):
        yield Finding("TC206", _slow(dtype, target.gpu), place, "warning", dtype=dtype)
    elif dtype == "float32" and subject.model.products and target.gpu.tensor_cores:
        has_tf32 = has_cores_for(target.gpu, "bfloat16")
        if not has_tf32 or not target.tf32:
            kind: FindingKind = "cores_idle_tf32_off" if has_tf32 else "cores_idle_without_tf32"
            yield Finding("TC206", say(kind, gpu=target.gpu.name), place, "note", dtype=dtype)


def _dtype(subject: Subject) -> str | None:
    """Return the dtype the model computes in: the one asked for, else its policy's, else that of all products."""
    if subject.step.dtype is not None:
        return subject.step.dtype
    policies = policies_of(subject)
    if len(policies) > 1:
        return None
    (policy,) = policies
    if policy is not None:
        return "float8" if policy.startswith("float8") else half_of(policy) or policy
    found = {product.record.dtype for product in subject.model.products}
    return found.pop() if len(found) == 1 else None


def _slow(dtype: str, gpu: Gpu) -> Statement[FindingKind]:
    capability = "{}.{}".format(*gpu.compute_capability)
    if gpu.tensor_cores:
        since = "{}.{}".format(*NEEDED[dtype])
        return say("dtype_without_cores", gpu=gpu.name, capability=capability, dtype=dtype, since=since)
    if gpu.compute_capability >= _TURING:
        return say("half_slower", gpu=gpu.name, capability=capability)
    return say("half_saves_memory", gpu=gpu.name, capability=capability, dtype=dtype)
