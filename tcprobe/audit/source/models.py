"""Models of Keras that the user's program puts together: Sequential, functional."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import Final

from tcprobe.audit.source.eval import Expressions
from tcprobe.audit.source.layers import multiplies
from tcprobe.audit.source.values import (
    Draft,
    Graph,
    Instance,
    Items,
    Stack,
    Tensor,
    Unknown,
    Value,
    either,
    items_of,
    number,
    shape_from,
    tensors_of,
)
from tcprobe.schema.op import Shape
from tcprobe.schema.place import Place
from tcprobe.syntax.values import Known

ENTRANCE: Final = "@"  # starts the names of models' inputs among those of layers


class Models(Expressions):
    """Calls of layers and models.

    Attributes:
        stacks, graphs, instances: what was constructed, in order.
        lacking: whether the call that is being followed passes arguments that are not known.
        fed: what each input of a model is given by other models, by the name of its source.
        missed: what could not be followed: what, why, where; by node, once.
    """

    stacks: list[Stack]
    graphs: list[Graph]
    instances: list[Instance]
    missed: dict[tuple[ast.AST, str], tuple[str, Place]]
    fed: dict[str, list[Tensor]]
    lacking: bool = False

    def entrance(self, shape: Shape | None, tensor: Tensor | None = None) -> Tensor:
        """Return a new input of a model; `fed` says under its source's name what it is given where it is called."""
        name = f"{ENTRANCE}{len(self.fed)}"
        self.fed[name] = []
        if tensor is not None:
            self.feed(name, tensor)
        return Tensor(shape, tensor.features if tensor else None, (name,), True, True)

    def feed(self, name: str, tensor: Tensor) -> None:
        """Note what an input of a model is given."""
        if tensor.symbolic and tensor.sources:
            self.fed[name].append(tensor)

    def note(self, node: ast.AST, what: str, reason: str) -> None:
        """Say once that something was not followed."""
        self.missed.setdefault((node, what), (reason, self.source.place(node)))

    def apply(self, target: Value, given: list[Value], node: ast.Call) -> Value:
        """Call a layer or model on what it is given."""
        tensors = [t for value in given for t in tensors_of(value)]
        if isinstance(target, Draft):
            if target.wrapped:
                return Tensor(None, None, tuple(s for t in tensors for s in t.sources), True, False)
            return self.layers.apply(target, tensors or [Tensor(symbolic=True)])
        if isinstance(target, Stack):
            return self.apply_stack(target, tensors[0] if tensors else Tensor(), node)
        if isinstance(target, Graph):
            return self._apply_graph(target, tensors)
        if isinstance(target, Instance):
            return self.apply_instance(target, given, {}, node)
        return Tensor(None, None, (), any(t.symbolic for t in tensors), None)

    def apply_instance(self, of: Instance, args: list[Value], keywords: dict[str, Value], node: ast.Call) -> Value:
        """Call a model or layer of the user's own class."""
        raise NotImplementedError

    def apply_stack(self, stack: Stack, tensor: Tensor, node: ast.Call) -> Tensor:
        """Call a Sequential model."""
        if stack.output is None and stack.given is None:
            stack.given = self._told(stack)
        if stack.given is None:
            batchless = (None, *tensor.shape[1:]) if tensor.shape else None
            stack.given = replace(self.entrance(batchless), features=tensor.features)
        output = self.finish(stack, node)
        for name in stack.given.sources if stack.given is not None else ():
            if name.startswith(ENTRANCE):
                self.feed(name, tensor)
        if tensor.symbolic:
            stack.uses += 1
            if stack.uses > 1:
                self._again(stack.parts)
        return Tensor(
            output.shape, output.features, output.sources, tensor.symbolic, False if tensor.symbolic else None
        )

    def finish(self, stack: Stack, node: ast.Call) -> Tensor:
        """Send a Sequential model's input through the parts that it has not passed yet; return its output."""
        if stack.output is None:
            stack.output = stack.given or self._told(stack) or self.entrance(None)
            stack.given = stack.given or stack.output
        while stack.built < len(stack.parts):
            part, before = stack.parts[stack.built], stack.output
            tensors = tensors_of(self.apply(part, [before], node))
            stack.output = tensors[0] if len(tensors) == 1 else Tensor(symbolic=True)
            if stack.built in stack.optional:
                stack.output = either(stack.output, before)
            stack.built += 1
        return stack.output

    def add(self, stack: Stack, part: Value) -> None:
        """Add a part to a Sequential model; an Input gives it its shape."""
        self.layers.changes += 1
        if isinstance(part, Tensor):
            if not stack.parts:
                stack.given = part
        else:
            if self.conditions:
                stack.optional.add(len(stack.parts))
            stack.parts.append(part)

    def _told(self, stack: Stack) -> Tensor | None:
        """Return the input that the first layer tells by `input_shape`, as Keras 2 has it."""
        first = stack.parts[0] if stack.parts else None
        shape: Shape | None = None
        if isinstance(first, Stack):
            return first.given or self._told(first)
        if isinstance(first, Draft):
            shape = told_shape(first)
        return self.entrance(shape) if shape is not None else None

    def _apply_graph(self, graph: Graph, tensors: list[Tensor]) -> Value:
        symbolic = any(t.symbolic for t in tensors)
        if symbolic:
            graph.uses += 1
            if graph.uses > 1:
                self._again(self._members(graph))
        for entrance, tensor in zip(tensors_of(graph.inputs), tensors, strict=False):
            for name in entrance.sources:
                if name.startswith(ENTRANCE):
                    self.feed(name, tensor)
        outputs = tensors_of(graph.outputs)
        made: list[Value] = [Tensor(t.shape, t.features, t.sources, symbolic, False) for t in outputs]
        return made[0] if len(made) == 1 else Items(made)

    def _members(self, graph: Graph) -> list[Value]:
        """Return the layers between a functional model's inputs and outputs."""
        by_name = {draft.name: draft for draft in self.layers.drafts}
        pending = [s for t in tensors_of(graph.outputs) for s in t.sources]
        ends = {s for t in tensors_of(graph.inputs) for s in t.sources}
        found: dict[str, Value] = {}
        while pending:
            name = pending.pop()
            if name in found or name in ends or name not in by_name:
                continue
            found[name] = by_name[name]
            pending.extend(s for t in by_name[name].inputs for s in t.sources)
        return list(found.values())

    def _again(self, parts: list[Value]) -> None:
        """Count one more call of every layer."""
        for part in parts:
            if isinstance(part, Draft):
                part.applied += 1
                part.calls = part.applied
            elif isinstance(part, Stack):
                self._again(part.parts)
            elif isinstance(part, Graph):
                self._again(self._members(part))

    def make_stack(self, values: dict[str, Value], node: ast.Call) -> Stack:
        """Construct a Sequential model."""
        stack = Stack()
        self.stacks.append(stack)
        given = values.get("layers")
        parts = items_of(given) if given is not None else []
        if isinstance(given, Items) and given.open:
            parts = given.items
            self.note(node, "Sequential: its list of layers", given.open)
        elif parts is None and not (isinstance(given, Known) and given.value is None):
            reason = given.reason if isinstance(given, Unknown) else "is not known"
            self.note(node, "Sequential: its list of layers", reason)
        for part in parts or []:
            self.add(stack, part)
        return stack

    def make_input(self, values: dict[str, Value]) -> Tensor:
        """Construct an Input."""
        whole = values.get("batch_shape") or values.get("batch_input_shape")
        if whole is not None:
            return self.entrance(shape_from(whole))
        given = values.get("shape") or values.get("input_shape")
        shape = shape_from(given) if given is not None else None
        batch = values.get("batch_size", number(None))
        size = batch.value if isinstance(batch, Known) and type(batch.value) is int else None
        return self.entrance((size, *shape) if shape is not None else None)

    def frozen(self, target: Value, value: Value) -> None:
        """Note ``layer.trainable = False`` for a layer, or for every layer of a model."""
        known = value.value if isinstance(value, Known) else None
        parts: list[Value] = [target]
        while parts:
            part = parts.pop()
            if isinstance(part, Draft) and part.trainable is not False:
                part.trainable = None if known is None else bool(known)
            elif isinstance(part, Stack):
                parts.extend(part.parts)
            elif isinstance(part, Graph):
                parts.extend(self._members(part))

    def opaque(self, node: ast.Call, name: str) -> Value:
        """Stand for a ready-made model whose layers no source tells."""
        self.note(node, name, "a ready-made model, known only by running it")
        return Unknown(f"is the result of {name}, whose layers are not in this file")


def told_shape(draft: Draft) -> Shape | None:
    """Return the input shape that a layer's own arguments tell: `input_shape`, `input_dim`, `batch_input_shape`."""
    whole = draft.config.get("batch_input_shape", draft.config.get("batch_shape"))
    if isinstance(whole, tuple):
        return tuple(s if type(s) is int else None for s in whole)
    shape = draft.config.get("input_shape")
    if isinstance(shape, tuple):
        return (None, *(s if type(s) is int else None for s in shape))
    size = draft.config.get("input_dim")
    if type(size) is int and draft.kind != "Embedding":
        length = draft.config.get("input_length")
        return (None, length, size) if type(length) is int else (None, size)
    length = draft.config.get("input_length")
    return (None, length) if draft.kind == "Embedding" and type(length) is int else None


def judged(draft: Draft) -> bool:
    """Return whether a layer's products depend on sizes that must be known."""
    return multiplies(draft.kind) and not draft.wrapped
