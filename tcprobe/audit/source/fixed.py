"""What sets the size of a layer's output if not the layer: inputs that models declare, data, files of weights."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from typing import Final

from tcprobe.audit.source.kinds import (
    Arguments,
    Draft,
    Entries,
    Graph,
    Instance,
    Items,
    Named,
    SourceValue,
    Stack,
    Tensor,
)
from tcprobe.audit.source.layers import members
from tcprobe.audit.source.state import State
from tcprobe.audit.source.values import parts_of, tensors_of
from tcprobe.keras.catalogue import class_of
from tcprobe.keras.settings import wrapped_layer
from tcprobe.schema.model import FixedBy
from tcprobe.source.values import Known

_LABELS: Final = re.compile(
    r"(classes|labels|categories)_?$|(n|nb|num|number|no)(_?of)?_?(class|label|categor(y|ie)|speaker|action|tag)s?$",
    re.I,
)
"""Names of how many labels there are."""
_LISTED: Final = re.compile(r"class|label|categor|speaker|action|tag", re.I)
"""The same in names of what `len` counts."""
_BY_NUMBER: Final = re.compile(
    "mse|mae|mape|msle|mean(squared|absolute|absolutepercentage|squaredlogarithmic)error|huber(loss)?|logcosh"
    "|cosinesimilarity|poisson|binary(focal)?crossentropy"
)
"""Names of losses, as functions and as classes. Source: keras/src/losses/losses.py."""
_WRITES = frozenset({"save_weights", "save", "ModelCheckpoint", "CheckpointManager"})


def fixed_layers(state: State) -> dict[str, FixedBy]:
    """Return what sets the size of the layers that do not choose it, by their names."""
    drafts = {draft.name: draft for draft in state.layers.drafts}
    found: dict[str, FixedBy] = {}
    for entrance, node in state.declared.items():
        for tensor in state.fed.get(entrance, ()):
            makers = _makers(tensor.sources, drafts, state)
            found |= {maker.name: "input" for maker in makers if not _names(maker.node) & _names(node)}
    for tensors in (*_merged(drafts.values()), *state.met):
        data = {t.last for t in tensors if _is_data(t, state)} - {None, 1}
        for tensor in tensors if data else ():
            if tensor.last in data and not _is_data(tensor, state):
                found |= {maker.name: "data" for maker in _makers(tensor.sources, drafts, state)}
    for tensors in state.compared:
        made = [tensor for tensor in tensors if tensor.sources]
        if len(made) == 1 and (len(tensors) == 1 or _of_one_size(tensors)):
            found |= {maker.name: "data" for maker in _makers(made[0].sources, drafts, state)}
    for output in _fitted(state):
        found |= {maker.name: "data" for t in tensors_of(output) for maker in _makers(t.sources, drafts, state)}
    found |= {draft.name: "labels" for draft in drafts.values() if _is_of_labels(draft)}
    found |= {maker.name: "file" for maker in _makers(state.saved, drafts, state)}
    return found | dict.fromkeys(state.loaded, "file")


def _makers(names: Iterable[str], drafts: dict[str, Draft], state: State) -> Iterator[Draft]:
    """Yield the layers that choose how many features arrive in tensors of these sources."""
    pending, seen = list(names), set(names)
    while pending:
        name = pending.pop()
        draft = drafts.get(name)
        if draft is None:
            before = [s for tensor in state.fed.get(name, ()) for s in tensor.sources]
        elif class_of(draft.kind).hands_on:
            before = [s for tensor in draft.inputs for s in tensor.sources]
        else:
            yield draft
            continue
        pending += [s for s in before if s not in seen]
        seen.update(before)


def _merged(drafts: Iterable[Draft]) -> Iterator[list[Tensor]]:
    """Yield what layers add up, or merge otherwise feature by feature."""
    return (draft.inputs for draft in drafts if class_of(draft.kind).features == "merged" and len(draft.inputs) > 1)


def _of_one_size(tensors: list[Tensor]) -> bool:
    """Return whether tensors have as many features, more than one; not where that is known of some alone."""
    sizes = {tensor.last for tensor in tensors}
    return len(sizes) == 1 and sizes.isdisjoint({None, 1})


def _fitted(state: State) -> Iterator[SourceValue]:
    """Yield what models put out that `compile` gives such losses alone (`is_by_number`)."""
    models: list[tuple[SourceValue, SourceValue | None]] = [(stack, stack.output) for stack in state.stacks]
    models += [(graph, graph.outputs) for graph in state.graphs]
    for of, output in [*models, *((instance, instance.output) for instance in state.instances)]:
        given = state.compiled.get(id(of))
        loss = given.get(1, "loss") if given is not None else None
        losses = [part for part in parts_of(loss) if not isinstance(part, Items | Entries)] if loss is not None else []
        if losses and output is not None and all(map(_is_by_number, losses)):
            yield output


def _is_by_number(loss: SourceValue) -> bool:
    name = loss.value if type(loss) is Known else loss.name if type(loss) is Named else None
    return isinstance(name, str) and is_by_number(name)


def is_by_number(loss: str) -> bool:
    """Return whether a loss of Keras' compares number by number what a model puts out with as many of the data.

    Others take the number of a label, or one of several: there, entries may stand idle.
    """
    return _BY_NUMBER.fullmatch(loss.rpartition(".")[2].lower().replace("_", "")) is not None


def _is_data(tensor: Tensor, state: State) -> bool:
    """Return whether a tensor is what a model is given from outside."""
    return bool(tensor.symbolic and tensor.fresh) and not any(state.fed.get(name) for name in tensor.sources)


def _is_of_labels(draft: Draft) -> bool:
    """Return whether the name of a layer's size says that it is how many labels there are."""
    call, (kind, _) = draft.node, wrapped_layer(draft.config) or (draft.kind, None)
    if kind != draft.kind:  # a wrapper
        call = next((part for part in call.args[:1] if isinstance(part, ast.Call)), call)
    size = next((k.value for k in call.keywords if k.arg == class_of(kind).output), None)
    size = size or next(iter(call.args), None)
    if size is None or class_of(kind).output not in ("units", "filters"):
        return False
    counts = isinstance(size, ast.Call) and isinstance(size.func, ast.Name) and size.func.id == "len"
    return any((_LISTED if counts else _LABELS).search(name) for name in _identifiers(size))


def _identifiers(expression: ast.expr) -> Iterator[str]:
    """Yield the names of variables, attributes and keys in an expression."""
    for part in ast.walk(expression):
        match part:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Constant(value=str(name)):
                yield name


def _names(call: ast.Call) -> set[str]:
    """Return the variables and attributes in the arguments of a call: a size that two calls share changes in both."""
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    return {ast.dump(part) for value in given for part in ast.walk(value) if isinstance(part, ast.Name | ast.Attribute)}


def note_loaded(p: State, of: SourceValue, given: Arguments, node: ast.Call) -> None:
    """Note that a model takes its weights from a file before it is trained; not one that the program writes itself."""
    partly = any(isinstance(v := given.keywords.get(name), Known) and v.value for name in ("by_name", "skip_mismatch"))
    if p.conditions or p.doubts or p.trainings or partly or _is_written(p, node):
        return
    p.loaded.update(draft.name for draft in members(_parts(of), p.layers.drafts))


def _is_written(p: State, node: ast.Call) -> bool:
    """Return whether the file writes what a call reads, by the same expression."""
    if not node.args:
        return False
    path = ast.dump(node.args[0])
    for call in p.here.walk.calls:
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        given = [*call.args, *(keyword.value for keyword in call.keywords)] if name in _WRITES else []
        if any(ast.dump(value) == path for value in given):
            return True
    return False


def _parts(of: SourceValue) -> list[SourceValue]:
    """Return the layers and models in a value, those in the attributes of an object too."""
    found: list[SourceValue] = []
    pending, seen = [of], set()
    while pending:
        value = pending.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, Draft | Stack | Graph):
            found.append(value)
        elif type(value) is Instance and value.keras is not None:
            pending += value.attrs.values()
        elif type(value) is Items:
            pending += value.items
    return found
