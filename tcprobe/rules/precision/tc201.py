"""TC201: finds an output of the model, or the softmax that makes it, in 16 bits."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tcprobe.keras.catalogue import class_of
from tcprobe.keras.row import PREPARES
from tcprobe.rules.base import RuleDoc, Says, Subject
from tcprobe.rules.precision.policy import GUIDE, SIXTEEN_BITS, keras_major, touched
from tcprobe.rules.precision.tree import name_of
from tcprobe.schema.finding import Edit, Finding, Fix, Severity
from tcprobe.schema.finding_kinds import FindingKind
from tcprobe.schema.model import Layer
from tcprobe.schema.place import Place
from tcprobe.schema.statement import About, Statement, say

if TYPE_CHECKING:
    from tcprobe.source.source import Source

DOC: Final = RuleDoc(
    code="TC201",
    name="output-in-16-bits",
    summary="The model's last layer computes in float16 or bfloat16.",
    explanation=(
        "Under a mixed policy every layer returns 16 bits, the last one too. Probabilities are hit hardest: just below "
        "1 float16 has steps of 0.0005 and bfloat16 of 0.004, and float16 holds nothing below 6e-8, so that a loss "
        "or a metric made of them is coarse and its gradient vanishes early. Logits in 16 bits lose less: the losses "
        "of Keras 3 cast what they are given to float32, those of Keras 2 and tf.nn mostly compute in the dtype that "
        "they get.\n\nEnd the model with a float32 activation of its own: it multiplies no matrices, so it costs "
        "next to nothing, and the product in front of it stays on the Tensor Cores. A softmax in the middle of a model "
        "(attention) is fine in 16 bits, and so is any layer that is followed by another.\n\n"
        "--fix splits the softmax off where the layer stands in a Sequential's list or is called on the spot, and "
        "nothing in the file takes layers by number or name."
    ),
    severity=(
        "warning for a softmax or sigmoid in float16, and for any float16 output where Keras is known to be 2; note "
        "otherwise. bfloat16 has float32's range, so that it costs resolution but cannot overflow or vanish: a note."
    ),
    bad=(
        'keras.mixed_precision.set_global_policy("mixed_float16")\n'
        'model = keras.Sequential([keras.Input((784,)), keras.layers.Dense(10, activation="softmax")])\n'
    ),
    good=(
        'keras.mixed_precision.set_global_policy("mixed_float16")\n'
        "model = keras.Sequential([\n    keras.Input((784,)),\n    keras.layers.Dense(10),\n"
        '    keras.layers.Activation("softmax", dtype="float32"),\n])\n'
    ),
    sources=(
        f"{GUIDE}, section Building the model: a softmax at the end should be float32, and so should any output",
        "Keras 3.15.1, keras/src/losses/loss.py, Loss.__call__: y_pred is converted to floatx",
        "IEEE 754 binary16: 2**-11 below 1, smallest subnormal 2**-24; bfloat16: 2**-8 below 1",
    ),
    fixable=True,
)
SAYS: Final[Says] = {
    "last_activation_in_half": ("{subject} ends the model with a {activation} in {dtype}", "give it dtype='float32'"),
    "probabilities_in_half": (
        "{subject} ends the model with a {activation} in {dtype}",
        "split off Activation('{activation}', dtype='float32')",
    ),
    "output_in_half": (
        "{subject} gives the model's output in {dtype}",
        "end the model in float32, as with Activation('linear', dtype='float32')",
    ),
    "activation_split": "compute the {activation} of {subject} in float32, in a layer of its own",
    "compute_in_float32": "compute {subject} in float32",
}

SPLIT: Final[FindingKind] = "probabilities_in_half"
"""What is mended by a layer more, which only the whole file read again can prove."""
_PROBABILITIES: Final = ("softmax", "sigmoid")


def check(subject: Subject) -> Iterator[Finding]:
    """Yield the layers that give an output of the model in 16 bits."""
    last = [layer for layer in subject.model.layers if layer.is_last and _computes(layer.kind)]
    suspects = [layer for layer in last if layer.dtype in SIXTEEN_BITS]
    cast = bool(suspects) and _casts_outputs(subject)
    for layer in suspects:
        activation = _activation(layer)
        if activation not in _PROBABILITIES and cast:
            continue
        yield Finding(
            code=DOC.code,
            says=_says(layer, activation),
            place=layer.arguments.get("activation") or layer.place,
            severity=_severity(layer, activation, keras_major(subject, _source(layer, subject))),
            layer=layer.name,
            layer_class=layer.class_name,
            dtype=layer.dtype,
            fix=_fix(layer, subject),
        )


def _computes(kind: str) -> bool:
    """Say whether what a class returns is of its compute dtype: a layer of the user's own may cast as it likes."""
    row = class_of(kind)
    return row.shape != "unknown" and row.kind not in PREPARES


def _source(layer: Layer, subject: Subject) -> Source | None:
    return subject.sources.get(layer.place.file) if layer.place is not None else None


def _activation(layer: Layer) -> str | None:
    if layer.kind == "Softmax":
        return "softmax"
    value = layer.config.get("activation")
    return value if isinstance(value, str) else None


def _severity(layer: Layer, activation: str | None, keras: int | None) -> Severity:
    if layer.dtype != "float16":
        return "note"
    return "warning" if activation in _PROBABILITIES or keras == 2 else "note"


def _says(layer: Layer, activation: str | None) -> Statement[FindingKind]:
    about = About(layer.class_name, layer.name)
    if activation not in _PROBABILITIES:
        return say("output_in_half", subject=about, dtype=layer.dtype)
    alone = class_of(layer.kind).kind == "activation"
    kind: FindingKind = "last_activation_in_half" if alone else SPLIT
    return say(kind, subject=about, activation=activation, dtype=layer.dtype)


def _casts_outputs(subject: Subject) -> bool:
    """Say whether a file casts to float32 outside a layer's call: it may be the model's output."""
    for source, tree in touched(subject):
        for node in tree.called("cast"):
            if name_of(source, node.func).endswith(".cast") and len(node.args) == 2:
                function = tree.function_of(node)
                inside = function is not None and function.name == "call"
                if not inside and "float32" in ast.unparse(node.args[1]):
                    return True
    return False


def _fix(layer: Layer, subject: Subject) -> Fix | None:
    """Return the edit that gives a last activation float32; None if more than that must change."""
    place = layer.place
    if class_of(layer.kind).kind != "activation" or place is None or "dtype" in layer.arguments:
        return None
    source = subject.sources.get(place.file)
    if source is None or place.end_line is None or place.end_column is None:
        return None
    text = source.segment(place)
    call = source.call_at(place.line, layer.class_name)
    if call is None or call.place != place or not text.endswith(")") or any(k.arg is None for k in call.node.keywords):
        return None
    if "dtype" in call.arguments:
        return None
    bare = not call.node.args and not call.node.keywords
    comma = "" if bare or text[:-1].rstrip().endswith(",") else ", "
    at = Place(place.file, place.end_line, place.end_column - 1, place.end_line, place.end_column)
    edit = Edit(at, ")", f'{comma}dtype="float32")')
    return Fix(say("compute_in_float32", subject=About(layer.class_name, layer.name)), (edit,), safe=True)
