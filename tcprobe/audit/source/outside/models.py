"""Models of Keras that the user's program puts together: Sequential, functional."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import Final

from tcprobe.audit.source.classes import Classes
from tcprobe.audit.source.outside.graphs import count_again
from tcprobe.audit.source.outside.layers import with_states
from tcprobe.audit.source.state import State
from tcprobe.audit.source.values.kinds import (
    Arguments,
    Draft,
    Graph,
    Instance,
    Items,
    Keywords,
    Routine,
    SourceValue,
    Stack,
    Tensor,
    Unknown,
    known_constant,
)
from tcprobe.audit.source.values.known import either, items_of, shape_from, size_from, tensors_of
from tcprobe.keras.catalogue import rank_of
from tcprobe.keras.settings import no_size
from tcprobe.schema.op import Shape, known_shape
from tcprobe.source.values import Known

_SHAPES: Final = ("shape", "input_shape", "batch_shape", "batch_input_shape")
"""Arguments of an Input that are a list of sizes."""
ENTRANCE: Final = "@"  # starts the names of models' inputs among those of layers


class Models:
    """Constructs models of Keras; calls models and layers."""

    def __init__(self, state: State, classes: Classes) -> None:
        self._state = state
        self._classes = classes

    def apply(self, target: SourceValue, given: list[SourceValue], node: ast.Call) -> SourceValue:
        """Call a layer or model on what it is given."""
        self._state.evaluate()
        tensors = [t for value in given for t in tensors_of(value)]
        if isinstance(target, Draft):
            if target.wrapped:
                return Tensor(None, None, tuple(s for t in tensors for s in t.sources), True, False)
            output = self._apply_layer(target, self._batched(tensors) or [Tensor(symbolic=True)])
            self._state.arrived(target)
            return output
        if isinstance(target, Stack):
            return self._apply_stack(target, tensors[0] if tensors else Tensor(), node)
        if isinstance(target, Graph):
            return self._apply_graph(target, tensors)
        if isinstance(target, Instance):
            return self._classes.apply(target, Arguments(given, {}), node)
        return Tensor(None, None, (), any(t.symbolic for t in tensors), None)

    def _apply_layer(self, draft: Draft, tensors: list[Tensor]) -> SourceValue:
        """Call a layer of Keras'."""
        output = self._state.layers.apply(draft, tensors)
        if isinstance(draft.function, Routine):
            given: SourceValue = tensors[0] if len(tensors) == 1 else Items(list(tensors))
            made = self._classes.compute(draft.function, given)
            if isinstance(made, Tensor) and made.shape is not None:
                output = replace(output, shape=made.shape, features=None, rows=made.rows, batch=made.batch)
                draft.output = output if draft.applied <= 1 else draft.output
        return with_states(draft, output)

    def _batched(self, tensors: list[Tensor]) -> list[Tensor]:
        """Return tensors with the size of data's own first dimension left open: it is no promise of a batch.

        Within a model only its inputs have the batch: positions and other constants have their own sizes.
        """
        if self._state.in_model:
            return tensors
        return [_open(t) if not t.symbolic and t.samples and t.shape and len(t.shape) > 1 else t for t in tensors]

    def _apply_stack(self, stack: Stack, tensor: Tensor, node: ast.Call) -> Tensor:
        """Call a Sequential model."""
        if stack.output is None and stack.given is None:
            stack.given = self._told(stack)
        if stack.given is None:
            batchless = (None, *tensor.shape[1:]) if tensor.shape else None
            if not tensor.sources:
                batchless = self._state.given.filled(batchless, stack.names)
            rows = tensor.samples if tensor.symbolic else 1
            stack.given = replace(self._entrance(batchless), features=tensor.features, rows=rows)
        output = self.finish(stack, node)
        if stack.given is not None:
            self._feed(stack.given, tensor)
        if tensor.symbolic:
            stack.uses += 1
            if stack.uses > 1:
                count_again(stack.parts, self._state.layers.drafts)
        fresh = False if tensor.symbolic else None
        return Tensor(output.shape, output.features, output.sources, tensor.symbolic, fresh, output.samples)

    def finish(self, stack: Stack, node: ast.Call) -> Tensor:
        """Send a Sequential model's input through the parts that it has not passed yet; return its output."""
        if stack.output is None:
            told = stack.given or self._told(stack)
            stack.output = told or self._entrance(self._given(stack))
            stack.given = stack.given or stack.output
        while stack.built < len(stack.parts):
            part, before = stack.parts[stack.built], stack.output
            tensors = tensors_of(self.apply(part, [before], node))
            stack.output = tensors[0] if len(tensors) == 1 else Tensor(symbolic=True)
            if stack.built in stack.optional:
                stack.output = either(stack.output, before)
            stack.built += 1
        return stack.output

    def add(self, stack: Stack, part: SourceValue) -> None:
        """Add a part to a Sequential model; an Input gives it its shape."""
        if isinstance(part, Tensor):
            if not stack.parts:
                stack.given = part
        else:
            if self._state.conditions:
                stack.optional.add(len(stack.parts))
            stack.parts.append(part)

    def _entrance(self, shape: Shape | None) -> Tensor:
        """Return a new input of a model; `fed` says under its source's name what it is given where it is called."""
        name = f"{ENTRANCE}{len(self._state.fed)}"
        self._state.fed[name] = []
        return Tensor(shape, None, (name,), True, True)

    def _feed(self, entrance: Tensor, tensor: Tensor) -> None:
        """Note what an input of a model is given."""
        for name in entrance.sources:
            if name.startswith(ENTRANCE) and tensor.symbolic and tensor.sources:
                self._state.fed[name].append(tensor)

    def _told(self, stack: Stack) -> Tensor | None:
        """Return the input that the first layer tells by `input_shape`, as Keras 2 has it."""
        first = stack.parts[0] if stack.parts else None
        if isinstance(first, Stack):
            return first.given or self._told(first)
        shape = _told_shape(first) if isinstance(first, Draft) else None
        return self._entrance(self._state.given.filled(shape, stack.names)) if shape is not None else None

    def _given(self, stack: Stack) -> Shape | None:
        """Return the input that the user gives a Sequential model, of the rank that its first layer takes."""
        first = stack.parts[0] if stack.parts else None
        space = rank_of(first.kind) if isinstance(first, Draft) else None
        if space is None:
            return self._state.given.filled(None, stack.names)
        shape = self._state.given.filled((None,) * (space + 2), stack.names)
        return None if shape is None or None in shape[1:] else shape

    def _apply_graph(self, graph: Graph, tensors: list[Tensor]) -> SourceValue:
        symbolic = any(t.symbolic for t in tensors)
        if symbolic:
            graph.uses += 1
            if graph.uses > 1:
                count_again([graph], self._state.layers.drafts)
        for entrance, tensor in zip(tensors_of(graph.inputs), tensors, strict=False):
            self._feed(entrance, tensor)
        outputs = tensors_of(graph.outputs)
        made: list[SourceValue] = [replace(t, symbolic=symbolic, fresh=False) for t in outputs]
        return made[0] if len(made) == 1 else Items(made)

    def make_stack(self, values: Keywords, node: ast.Call) -> Stack:
        """Construct a Sequential model."""
        stack = Stack(names=self._state.names(node))
        self._state.stacks.append(stack)
        given = values.get("layers", known_constant(None))
        parts = given.items if isinstance(given, Items) else items_of(given)
        if isinstance(given, Items) and given.open:
            self._state.miss(node, "Sequential: its list of layers", given.open)
        elif parts is None and not (isinstance(given, Known) and given.value is None):
            reason = given.reason if isinstance(given, Unknown) else "is not known"
            self._state.miss(node, "Sequential: its list of layers", reason)
        for part in parts or []:
            self.add(stack, part)
        return stack

    def make_input(self, values: Keywords, node: ast.Call) -> Tensor:
        """Construct an Input; what it leaves open is as the user gives it."""
        for name in (*_SHAPES, "batch_size"):
            given = values.get(name, known_constant(None))
            for size in items_of(given) or [given]:
                if isinstance(size, Known) and size.value is not None and size_from(size) is None:
                    self._state.miss(node, f"Input: {name}", no_size(size.value))
        return self._entrance(self._state.given.filled(_input_shape(values), self._state.names(node)))


def _input_shape(values: Keywords) -> Shape | None:
    """Return the shape that the arguments of an Input tell, batch first; None where its rank is not known."""
    whole = values.get("batch_shape") or values.get("batch_input_shape")
    if whole is not None:
        return shape_from(whole)
    given = values.get("shape") or values.get("input_shape")
    shape = shape_from(given) if given is not None else None
    return (size_from(values.get("batch_size", known_constant(None))), *shape) if shape is not None else None


def _open(tensor: Tensor) -> Tensor:
    return replace(tensor, shape=(None, *tensor.shape[1:]) if tensor.shape else None, rows=1, batch=0)


def _told_shape(draft: Draft) -> Shape | None:
    """Return the input shape that a layer's own arguments tell: `input_shape`, `input_dim`, `batch_input_shape`."""
    whole = draft.config.get("batch_input_shape", draft.config.get("batch_shape"))
    if isinstance(whole, tuple):
        return known_shape(whole)
    shape = draft.config.get("input_shape")
    if isinstance(shape, tuple):
        return (None, *known_shape(shape))
    size = draft.config.get("input_dim")
    if type(size) is int and draft.kind != "Embedding":
        length = draft.config.get("input_length")
        return (None, length, size) if type(length) is int else (None, size)
    length = draft.config.get("input_length")
    return (None, length) if draft.kind == "Embedding" and type(length) is int else None
