"""Models of Keras that the user's program puts together: Sequential, functional."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from tcprobe.audit.source.functions import apply_instance, counts, enter
from tcprobe.audit.source.kinds import (
    NOTHING,
    Arguments,
    Draft,
    Entries,
    Graph,
    Instance,
    Items,
    Keywords,
    Routine,
    SourceValue,
    Stack,
    Tensor,
    Unknown,
)
from tcprobe.audit.source.layers import count_again, with_states
from tcprobe.audit.source.state import State
from tcprobe.audit.source.steps.trainings import note_called
from tcprobe.audit.source.values import either, items_of, parts_of, shape_from, size_from, tensors_of
from tcprobe.keras.catalogue import class_of, rank_of
from tcprobe.keras.settings import no_size
from tcprobe.schema.op import Shape, known_shape
from tcprobe.source.values import Known

_SHAPES: Final = ("shape", "input_shape", "batch_shape", "batch_input_shape")
"""Arguments of an Input that are a list of sizes."""
ENTRANCE: Final = "@"  # starts the names of models' inputs among those of layers


def apply(p: State, target: SourceValue, given: list[SourceValue], node: ast.Call) -> SourceValue:
    """Call a layer or model on what it is given."""
    p.evaluate()
    tensors = tensors_of(*given)
    note_called(p, target, tensors)
    if type(target) is Draft:
        if target.wrapped:
            return Tensor(None, None, tuple(s for t in tensors for s in t.sources), True, False)
        output = _apply_layer(p, target, _batched(p, tensors) or [Tensor(symbolic=True)])
        p.arrived(target)
        return output
    if type(target) is Stack:
        return _apply_stack(p, target, tensors[0] if tensors else Tensor(), node)
    if type(target) is Graph:
        return _apply_graph(p, target, tensors, node)
    if type(target) is Instance:
        return apply_instance(p, target, Arguments(given, {}), node)
    return Tensor(None, None, (), any(t.symbolic for t in tensors), None)


def _apply_layer(p: State, draft: Draft, tensors: list[Tensor]) -> SourceValue:
    """Call a layer of Keras'."""
    output = p.layers.apply(draft, tensors)
    if type(draft.function) is Routine:
        given: SourceValue = tensors[0] if len(tensors) == 1 else Items(list(tensors))
        made = enter(p, draft.function, Arguments([given], {}, lacking=True))
        if type(made) is Tensor and made.shape is not None:
            output = replace(output, shape=made.shape, features=None, rows=made.rows, batch=made.batch)
            draft.output = output if draft.applied <= 1 else draft.output
    return with_states(draft, output)


def _batched(p: State, tensors: list[Tensor]) -> list[Tensor]:
    """Return tensors with the size of data's own first dimension left open: it is no promise of a batch.

    Within a model only its inputs have the batch: positions and other constants have their own sizes.
    """
    if all(t.symbolic for t in tensors) or p.in_model:
        return tensors
    return [
        replace(t, shape=(None, *t.shape[1:]), rows=1, batch=0)
        if not t.symbolic and t.samples and t.shape and len(t.shape) > 1
        else t
        for t in tensors
    ]


def _apply_stack(p: State, stack: Stack, tensor: Tensor, node: ast.Call) -> Tensor:
    """Call a Sequential model."""
    if stack.output is None and stack.given is None:
        stack.given = _filled(_told(p, stack), tensor)
    if stack.given is None:
        batchless = (None, *tensor.shape[1:]) if tensor.shape else None
        if not tensor.sources:
            batchless = p.given.filled(batchless, stack.names)
        rows = tensor.samples if tensor.symbolic else 1
        stack.given = replace(_entrance(p, batchless), features=tensor.features, rows=rows)
    output = finish(p, stack, node)
    _feed(p, stack.given, tensor)
    if tensor.symbolic:
        stack.uses += 1
        if stack.uses > 1:
            count_again(stack.parts, p.layers.drafts)
    elif _is_more(p, stack, node):
        count_again(stack.parts, p.layers.drafts)
    fresh = False if tensor.symbolic else None
    return Tensor(output.shape, output.features, output.sources, tensor.symbolic, fresh, output.samples)


def _filled(told: Tensor | None, data: Tensor) -> Tensor | None:
    """Return a model's input with the sizes that its code leaves open as the data have them that it is first given."""
    if told is None or not told.shape or not data.shape or data.symbolic or len(told.shape) != len(data.shape):
        return told
    if any(own not in (None, size) for own, size in zip(told.shape[1:], data.shape[1:], strict=True) if size):
        return told
    sizes = (size if own is None else own for own, size in zip(told.shape[1:], data.shape[1:], strict=True))
    return replace(told, shape=(told.shape[0], *sizes))


def finish(p: State, stack: Stack, node: ast.Call) -> Tensor:
    """Send a Sequential model's input through the parts that it has not passed yet; return its output."""
    if stack.output is None:
        stack.output = stack.given or _told(p, stack) or _entrance(p, _given(p, stack))
        stack.given = stack.given or stack.output
    while stack.built < len(stack.parts):
        part, before = stack.parts[stack.built], stack.output
        tensors = tensors_of(apply(p, part, [before], node))
        stack.output = tensors[0] if len(tensors) == 1 else Tensor(symbolic=True)
        if stack.built in stack.optional:
            stack.output = either(stack.output, before)
        stack.built += 1
    return stack.output


def add(p: State, stack: Stack, part: SourceValue) -> None:
    """Add a part to a Sequential model; an Input gives it its shape."""
    if type(part) is Tensor:
        if not stack.parts:
            stack.given = part
        return
    if p.conditions:
        stack.optional.add(len(stack.parts))
    stack.parts.append(part)


def _entrance(p: State, shape: Shape | None) -> Tensor:
    """Return a new input of a model; `fed` says under its source's name what it is given where it is called."""
    name = f"{ENTRANCE}{len(p.fed)}"
    p.fed[name] = []
    return Tensor(shape, None, (name,), True, True)


def _declared(p: State, entrance: Tensor, node: ast.Call) -> Tensor:
    """Note the call that says how many features a model's input has."""
    if entrance.last is not None:
        p.declared.update(dict.fromkeys(entrance.sources, node))
    return entrance


def _feed(p: State, entrance: Tensor, tensor: Tensor) -> None:
    """Note what an input of a model is given."""
    for name in entrance.sources:
        if name.startswith(ENTRANCE) and tensor.symbolic and tensor.sources:
            p.fed[name].append(tensor)


def _told(p: State, stack: Stack) -> Tensor | None:
    """Return the input that the first layer tells by `input_shape`, as Keras 2 has it."""
    first = stack.parts[0] if stack.parts else None
    if type(first) is Stack:
        return first.given or _told(p, first)
    shape = _told_shape(first) if type(first) is Draft else None
    if type(first) is not Draft or shape is None:
        return None
    return _declared(p, _entrance(p, p.given.filled(shape, stack.names)), first.node)


def _told_shape(draft: Draft) -> Shape | None:
    """Return the input shape that a layer's own arguments tell: `input_shape`, `input_dim`, `batch_input_shape`."""
    whole = draft.config.get("batch_input_shape", draft.config.get("batch_shape"))
    if isinstance(whole, tuple):
        return known_shape(whole)
    shape, size, length = (draft.config.get(name) for name in ("input_shape", "input_dim", "input_length"))
    if isinstance(shape, tuple):
        return (None, *known_shape(shape))
    lengths = (length,) if type(length) is int else ()
    if draft.kind == "Embedding":
        return (None, *lengths) if lengths else None
    steps = lengths or ((None,) if class_of(draft.kind).dimensions == 3 else ())  # Keras 2: of any length
    return (None, *steps, size) if type(size) is int else None


def _given(p: State, stack: Stack) -> Shape | None:
    """Return the input that the user gives a Sequential model, of the rank that its first layer takes."""
    first = stack.parts[0] if stack.parts else None
    space = rank_of(first.kind) if type(first) is Draft else None
    if space is None:
        return p.given.filled(None, stack.names)
    shape = p.given.filled((None,) * (space + 2), stack.names)
    return None if shape is None or None in shape[1:] else shape


def _is_more(p: State, model: Stack | Graph, node: ast.Call) -> bool:
    """Return whether a call of a model with data is one more of a step that trains, beside the one that it counts."""
    before = any(model.sites.values())
    trains = bool(p.frames) or p.taped > 0
    return trains and counts(p, model, node) and (before or model.uses > 0)


def _apply_graph(p: State, graph: Graph, tensors: list[Tensor], node: ast.Call) -> SourceValue:
    symbolic = any(t.symbolic for t in tensors)
    if symbolic:
        graph.uses += 1
        if graph.uses > 1:
            count_again([graph], p.layers.drafts)
    elif tensors and _is_more(p, graph, node):
        count_again([graph], p.layers.drafts)
    for entrance, tensor in zip(tensors_of(graph.inputs), tensors, strict=False):
        _feed(p, entrance, tensor)
    made: list[SourceValue] = [replace(t, symbolic=symbolic, fresh=False) for t in tensors_of(graph.outputs)]
    return made[0] if len(made) == 1 else Items(made)


def make_graph(p: State, values: Keywords, node: ast.Call) -> SourceValue:
    """Construct a functional model."""
    if "inputs" not in values or "outputs" not in values:
        return Unknown("is a model whose inputs and outputs are not known")
    p.graphs.append(Graph(values["inputs"], values["outputs"], place=p.here.place(node)))
    return p.graphs[-1]


def make_stack(p: State, values: Keywords, node: ast.Call) -> Stack:
    """Construct a Sequential model."""
    stack = Stack(names=p.names(node), place=p.here.place(node))
    p.stacks.append(stack)
    given = values.get("layers", NOTHING)
    parts = given.items if type(given) is Items else items_of(given)
    reason = given.open if type(given) is Items else given.reason if type(given) is Unknown else "is not known"
    nothing = type(given) is Known and given.value is None
    if reason is not None and not nothing and (parts is None or type(given) is Items):
        p.miss(node, "Sequential: its list of layers", reason)
    for part in parts or []:
        add(p, stack, part)
    return stack


def make_input(p: State, values: Keywords, node: ast.Call) -> Tensor:
    """Construct an Input; what it leaves open is as the user gives it."""
    for name in (*_SHAPES, "batch_size"):
        given = values.get(name, NOTHING)
        for size in items_of(given) or [given]:
            if type(size) is Known and size.value is not None and size_from(size) is None:
                p.miss(node, f"Input: {name}", no_size(size.value))
    return _declared(p, _entrance(p, p.given.filled(_input_shape(values), p.names(node))), node)


def _input_shape(values: Keywords) -> Shape | None:
    """Return the shape that the arguments of an Input tell, batch first; None where its rank is not known."""
    whole = values.get("batch_shape") or values.get("batch_input_shape")
    if whole is not None:
        return shape_from(whole)
    shape = shape_from(values.get("shape") or values.get("input_shape"))
    return (size_from(values.get("batch_size", NOTHING)), *shape) if shape is not None else None


# Layers of functional models that nothing uses: a `Model` runs only what lies between its inputs and outputs


UNUSED: Final = "no Model takes what it makes, so that it never runs"
_OTHERWISE: Final = frozenset({"add_loss", "add_metric", "function", "Function", "gradients", "get_layer"})
"""Calls that may use a layer which no output of a model needs."""


def unused_layers(state: State) -> set[str]:
    """Return the names of layers on the inputs of functional models that no model's output needs.

    Nothing where the file leaves open what its models' outputs are made of, or may use layers otherwise.
    """
    drafts = {draft.name: draft for draft in state.layers.drafts}
    if not state.graphs or state.seen.cut or _uses_otherwise(state):
        return set()
    outputs = [tensor for graph in state.graphs for tensor in _complete(graph.outputs)]
    used = _lineage(outputs, drafts, state)
    if used is None or not all(_complete(graph.outputs) for graph in state.graphs):
        return set()
    stacked = [s for stack in state.stacks if stack.output is not None for s in stack.output.sources]
    kept = used | _behind([*stacked, *state.handed], drafts, state)
    entrances = {s for graph in state.graphs for t in tensors_of(graph.inputs) for s in t.sources}
    return drafts.keys() - kept - _apart(drafts, entrances)


def _uses_otherwise(state: State) -> bool:
    called = {node.func.attr for node in state.source.walk.calls if isinstance(node.func, ast.Attribute)}
    return not called.isdisjoint(_OTHERWISE) or any(instance.keras == "model" for instance in state.instances)


def _complete(outputs: SourceValue) -> list[Tensor]:
    """Return the tensors that a model's outputs are; nothing where some of them are not known."""
    leaves = [part for part in parts_of(outputs) if not isinstance(part, (Items, Entries))]
    is_open = any(isinstance(part, (Items, Entries)) and part.open for part in parts_of(outputs))
    tensors = [part for part in leaves if type(part) is Tensor and part.sources]
    return tensors if len(tensors) == len(leaves) and not is_open else []


def _lineage(tensors: Iterable[Tensor], drafts: dict[str, Draft], state: State) -> set[str] | None:
    """Return the layers behind tensors; None where what one of them takes is not known."""
    found: set[str] = set()
    pending = [s for tensor in tensors for s in tensor.sources]
    while pending:
        name = pending.pop()
        if name in found:
            continue
        found.add(name)
        draft = drafts.get(name)
        taken = state.fed.get(name, []) if draft is None else [*draft.inputs, *draft.other]
        if not all(tensor.sources for tensor in taken) or (draft is not None and not draft.inputs):
            return None
        pending += [s for tensor in taken for s in tensor.sources]
    return found


def _behind(names: Iterable[str], drafts: dict[str, Draft], state: State) -> set[str]:
    """Return layers and all behind them, as far as it is known."""
    found: set[str] = set()
    pending = [*names]
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            fed = (source for tensor in state.fed.get(name, ()) for source in tensor.sources)
            pending += _sources(drafts[name]) if name in drafts else fed
    return found


def _sources(draft: Draft) -> list[str]:
    return [source for tensor in (*draft.inputs, *draft.other) for source in tensor.sources]


def _apart(drafts: dict[str, Draft], entrances: set[str]) -> set[str]:
    """Return the layers that take something else than these inputs of models, by themselves or through others."""
    takers: dict[str, list[str]] = {}
    found: set[str] = set()
    for name, draft in drafts.items():
        for source in _sources(draft):
            takers.setdefault(source, []).append(name)
        if not draft.inputs or not all(tensor.sources for tensor in (*draft.inputs, *draft.other)):
            found.add(name)
    pending = [*found, *(s for s in takers if s.startswith(ENTRANCE) and s not in entrances)]
    while pending:
        new = [name for name in takers.get(pending.pop(), ()) if name not in found]
        found.update(new)
        pending += new
    return found
