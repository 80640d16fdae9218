"""The projection to a vocabulary at the end of a model: more units than tokens, the rest unused.

Nothing in the model takes its size, but the labels may. Labels that are numbers of tokens or classes fit any larger
size; one-hot labels do not. So there is a fix only where the file shows that labels are numbers: an Embedding of as
many tokens, or a sparse loss behind a softmax, and nothing that makes labels one-hot. An Embedding whose ``input_dim``
rests on the same literal grows too, which is safe: its last rows are never looked up.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tcprobe.audit.fix.links import NotCertain, WantedSize
from tcprobe.audit.fix.slots import Slot, slots_of
from tcprobe.audit.fix.source.files import Files
from tcprobe.audit.fix.source.tree import FileTree
from tcprobe.schema.finding import Finding
from tcprobe.schema.model import Layer, Model
from tcprobe.schema.place import Place
from tcprobe.schema.statement import say

if TYPE_CHECKING:
    from tcprobe.rules.model.step import Step

CODE: Final = "TC105"
_SOFTMAX: Final = ("softmax", "log_softmax")
_ACTIVATIONS: Final = (None, "linear", *_SOFTMAX)
_SPARSE: Final = re.compile(r"sparse_?(softmax|categorical)_?cross_?entropy", re.IGNORECASE)
# What makes or takes one-hot or soft labels, as a name or as the text that `compile` takes.
_ONE_HOT: Final = re.compile(
    r"(?<!sparse)(?<!sparse_)(categorical_?cross_?entropy|softmax_cross_entropy)|one_?hot|to_categorical"
    r"|categorical_?focal|kl_?divergence|label_?smoothing|binary_?cross_?entropy",
    re.IGNORECASE,
)


def is_vocabulary(finding: Finding) -> bool:
    """Say whether a finding is about a vocabulary."""
    return finding.code == CODE and finding.dimension == "units"


def vocabulary_slots(finding: Finding, step: Step, beside: Iterable[Step], files: Files) -> tuple[Slot, ...]:
    """Return the arguments that change: the projection's units, and what an Embedding shares with them.

    Args:
        finding: about a vocabulary.
        step: of its model.
        beside: steps of other models, in which the same code may make the projection.
        files: the files.

    Raises:
        NotCertain: labels may be one-hot, or something takes the output that would have to fit.
    """
    model = step.model
    layer = model.layer(finding.layer)
    if layer is None or layer.kind != "Dense" or finding.size is None or finding.suggested is None:
        raise NotCertain(say("vocabulary_not_dense"))
    tail = step.sizes.tail(layer.name)
    _refuse_takers(tail, model)
    for other in beside:
        for same in other.model.layers:
            if same.place == layer.place:
                _refuse_takers(other.sizes.tail(same.name), other.model)
    embeddings = [x for x in model.layers if x.kind == "Embedding" and x.config.get("input_dim") == finding.size]
    want = WantedSize(layer.name, "units", None, finding.size, finding.suggested)
    slots = slots_of([want], model, files)
    _refuse_one_hot(tail, bool(embeddings), [files.tree(path) for path in files.sources])
    literals = {use.literal.place for slot in slots for use in slot.literals}
    return (*slots, *_sharing(literals, embeddings, want, model, files))


def _refuse_takers(tail: Iterable[Layer], model: Model) -> None:
    names = {layer.name for layer in tail}
    if any(layer.config.get("activation") not in _ACTIVATIONS for layer in tail):
        raise NotCertain(say("activation_no_choice"))
    others = [layer for layer in model.layers if layer.name not in names and not names.isdisjoint(layer.inputs_from)]
    if any(not any(name.startswith(f"{layer.name}/") for name in names) for layer in others):
        raise NotCertain(say("taken_by_layer"))
    if any(not names.isdisjoint(product.inputs_from) for product in model.products):
        raise NotCertain(say("taken_by_product"))


def _refuse_one_hot(tail: Iterable[Layer], embedded: bool, trees: Iterable[FileTree]) -> None:
    words = {word for tree in trees for word in _words(tree)}
    if any(_ONE_HOT.search(word) for word in words):
        raise NotCertain(say("labels_one_hot"))
    chooses = any(layer.config.get("activation") in _SOFTMAX or layer.kind == "Softmax" for layer in tail)
    if not embedded and not (chooses and any(_SPARSE.search(word) for word in words)):
        raise NotCertain(say("labels_unknown"))


def _words(tree: FileTree) -> set[str]:
    """Return the names and short texts of a file."""
    found = {getattr(node, "id", None) or getattr(node, "attr", None) for node in tree.of(ast.Name, ast.Attribute)}
    texts = {node.value for node in tree.of(ast.Constant) if isinstance(node, ast.Constant)}
    given = {node.arg for node in tree.of(ast.keyword) if isinstance(node, ast.keyword)}
    names = {alias.name for node in tree.of(ast.ImportFrom) for alias in getattr(node, "names", ())}
    return {w for w in (found | texts | given | names) if isinstance(w, str) and len(w) <= 60}


def _sharing(
    literals: set[Place], embeddings: Iterable[Layer], want: WantedSize, model: Model, files: Files
) -> list[Slot]:
    """Return the sizes of the Embeddings that rest on the same literals."""
    found = []
    for layer in embeddings:
        try:
            slots = slots_of([replace(want, layer=layer.name, argument="input_dim")], model, files)
        except NotCertain:  # then no literal of it is known to change
            continue
        found += [slot for slot in slots if any(use.literal.place in literals for use in slot.literals)]
    return found
