"""The user's own classes: objects constructed, models and layers called."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from tcprobe.audit.source.attributes import of_tensor
from tcprobe.audit.source.functions import Functions
from tcprobe.audit.source.state import State
from tcprobe.audit.source.values.kinds import (
    Arguments,
    Bound,
    Class,
    Graph,
    Instance,
    Named,
    Routine,
    SourceValue,
    Tensor,
    Unknown,
)
from tcprobe.audit.source.values.known import tensors_of, with_tensors
from tcprobe.audit.source.values.parts import find_member, lineage, result_of
from tcprobe.keras.catalogue import by_path
from tcprobe.keras.names import canonical_name, layer_class
from tcprobe.keras.row import LayerKind

_FOLLOWED: Final[Mapping[LayerKind, str]] = {"model": "model", "sequence": "Sequential", "base": "layer"}


class Classes:
    """Constructs objects of the file's classes and calls those that can be called."""

    def __init__(self, state: State, functions: Functions) -> None:
        self._state = state
        self._functions = functions

    def construct(self, of: Class, given: Arguments, node: ast.Call) -> Instance:
        """Construct an object of a class of the file."""
        keras = extends(of)
        made = Instance(of, {}, keras, names=[of.node.name, *self._state.names(node)])
        if keras is not None and keras not in ("model", "layer"):
            self._state.miss(node, of.node.name, f"inherits from {keras} in this file, and is not guessed at")
        init = find_member(of, "__init__")
        self._state.instances.append(made)
        self._state.hand(of.node)
        if isinstance(init, Routine):
            self._functions.enter(_method(init, made), given)
        elif keras is None:
            _fill(made, of, given)
        return made

    def apply(self, of: Instance, given: Arguments, node: ast.Call) -> SourceValue:
        """Call a model or layer of the user's own class: follow its `call`."""
        call = find_member(of.of, "call" if of.keras else "__call__")
        tensors = [t for a in given.all for t in tensors_of(a)]
        if not isinstance(call, Routine) or of.keras not in (None, "model", "layer"):
            return result_of(node, tensors)
        args, keywords = given.args, {k: v for k, v in given.keywords.items() if k != "mask"}
        eager = bool(of.keras) and not any(t.symbolic for t in tensors)
        if eager and not self._counts(of, node) and of.output is not None:
            return _as_data(of.output) if not self._state.in_model else of.output
        eager = eager and not self._state.in_model
        if of.keras:
            args = [self._traced(a, of) for a in self._told(args, of)] if eager else args
            if not of.uses:
                self._build(of, args)
            keywords.setdefault("training", Unknown("training or not"))
        of.uses = max(of.uses, 1) if eager else of.uses + 1
        found = self._functions.enter(_method(call, of), Arguments(args, keywords))
        of.output = of.output or found
        return _as_data(found) if eager else found

    def compute(self, function: Routine, given: SourceValue) -> SourceValue:
        """Follow what a Lambda layer computes of its input."""
        return self._functions.enter(function, Arguments([given], {}, lacking=True))

    def _counts(self, of: Instance, node: ast.Call) -> bool:
        """Return whether a call with data is one more of a step: no step has had as many calls of the model before."""
        around = self._state.frames[-1].node if self._state.frames else None
        most = max(map(len, of.sites.values()), default=0)
        of.sites.setdefault(around, set()).add(node)
        return len(of.sites[around]) > most

    def _told(self, args: list[SourceValue], of: Instance) -> list[SourceValue]:
        """Return what a model is called with, its input of the shape that the user gives where nothing is known."""
        if not args or not isinstance(args[0], Unknown) or of.keras != "model":
            return args
        shape = self._state.given.filled(None, of.names)
        return [Tensor(shape, None, (), True, True), *args[1:]] if shape is not None else args

    def _traced(self, value: SourceValue, of: Instance) -> SourceValue:
        """Return data as the input of a model: symbolic, its batch open, what is not known as the user gives it."""

        def traced(tensor: Tensor) -> Tensor:
            shape = (None, *tensor.shape[1:]) if tensor.shape else None
            shape = self._state.given.filled(shape, of.names, by_name=of.keras == "layer")
            return replace(tensor, shape=shape, symbolic=True, rows=1, batch=0)

        return with_tensors(value, traced)

    def _build(self, of: Instance, args: list[SourceValue]) -> None:
        build = find_member(of.of, "build")
        if not isinstance(build, Routine):
            return
        first = args[0] if args else Unknown("")
        shape: SourceValue = Unknown("its input shape is not known")
        if isinstance(first, Tensor):
            shape = of_tensor(first, ast.Attribute(ast.Constant(None), "shape", ast.Load()))
        self._functions.enter(_method(build, of), Arguments([shape], {}))

    def inherited(self, above: Bound, name: str, given: Arguments) -> SourceValue:
        """Call a method of the classes above: ``super().name()``."""
        holder = above.args[0]
        for base in holder.bases if isinstance(holder, Class) else ():
            found = find_member(base, name) if isinstance(base, Class) else None
            if isinstance(found, Routine):
                return self._functions.enter(_method(found, above.target), given)
        if name == "__init__" and isinstance(above.target, Instance) and "outputs" in given.keywords:
            self._state.graphs.append(Graph(given.keywords.get("inputs", Unknown("")), given.keywords["outputs"]))
        return Unknown(f"is the result of super().{name}()")


def extends(of: SourceValue) -> str | None:
    """Return which of Keras' classes a class extends: ``model``, ``layer`` or a name; None where none."""
    for base in lineage(of):
        name = canonical_name(base.name) if isinstance(base, Named) and base is not of else ""
        row = by_path().get(name)
        found = _FOLLOWED.get(row.kind, layer_class(name)) if row is not None else None
        if found is not None:
            return found
    return None


def _method(routine: Routine, bound: SourceValue) -> Routine:
    return replace(routine, bound=bound)


def _fill(made: Instance, of: Class, given: Arguments) -> None:
    """Give a record its fields, as a data class or a named tuple does."""
    for base in reversed([c for c in lineage(of) if isinstance(c, Class)]):
        _declare(made, base)
    made.attrs.update(zip(list(made.attrs), given.args, strict=False))
    made.attrs.update({k: v for k, v in given.keywords.items() if k in made.attrs})


def _declare(made: Instance, of: Class) -> None:
    declared = [s.target.id for s in of.node.body if isinstance(s, ast.AnnAssign) and isinstance(s.target, ast.Name)]
    for name in dict.fromkeys([*made.attrs, *declared]):
        default = of.members.get(name) or made.attrs.get(name)
        made.attrs[name] = default or Unknown(f"{name} of {of.node.name} is not set")


def _as_data(value: SourceValue) -> SourceValue:
    """Return what a model made of data: data again, with the layers that it comes from."""
    return with_tensors(value, lambda tensor: replace(tensor, symbolic=False))
