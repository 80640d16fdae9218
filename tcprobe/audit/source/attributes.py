"""Attributes of values: of the user's objects, of models and layers, of tensors, of options."""

from __future__ import annotations

import ast
from dataclasses import replace

from tcprobe.audit.source.arrays.layout import transposed
from tcprobe.audit.source.outside.options import AT_DEFAULTS, is_flags, option
from tcprobe.audit.source.state import State
from tcprobe.audit.source.values.kinds import (
    Bound,
    Class,
    CommandLine,
    Draft,
    Graph,
    Instance,
    Module,
    Named,
    Routine,
    SourceValue,
    Stack,
    Tensor,
    Unknown,
    known_constant,
)
from tcprobe.audit.source.values.parts import dimensions, find_member, marked
from tcprobe.audit.source.values.several import doubted, guessed, mapped, through
from tcprobe.source.values import Doubt, Known


def attribute_of(state: State, of: SourceValue, node: ast.Attribute) -> SourceValue:
    """Return the attribute of a value that `node` names."""
    found = _attribute(state, of, node)
    return doubted(found, Doubt(f"{node.attr} changes in a loop")) if node.attr in state.shaky else found


def _attribute(state: State, of: SourceValue, node: ast.Attribute) -> SourceValue:
    name = node.attr
    if isinstance(of, Named):
        return _option(state, state.flags, name) if is_flags(of.name) else Named(f"{of.name}.{name}")
    if isinstance(of, CommandLine):
        return _option(state, of, name)
    if isinstance(of, Instance):
        found = through(_of_instance(of, name), [of], lambda row: attribute_of(state, row[0], node))
        home = of.of.env.home or state.source
        return doubted(found, home.doubts.of_attribute(of.of.node, name))
    if isinstance(of, Module):
        return of.member(name)
    if isinstance(of, Class):
        return _of_class(of, name)
    if isinstance(of, Tensor):
        return of_tensor(of, node)
    if isinstance(of, Unknown):
        return mapped(of.reason, [of], lambda row: attribute_of(state, row[0], node)) if of.options else of
    return _of_model(of, name) or Bound(of, name)


def of_tensor(of: Tensor, node: ast.Attribute) -> SourceValue:
    """Return an attribute of a tensor."""
    if node.attr in ("shape", "_keras_shape") and (of.shape is not None or of.features is not None):
        return dimensions(of, node)
    if node.attr == "ndim" and of.shape is not None:
        return known_constant(len(of.shape), node).doubted(Doubt("is the rank of a tensor", hidden=True))
    if node.attr == "T" and of.shape is not None:
        return transposed(of)
    return Bound(of, node.attr)


def _option(state: State, of: CommandLine, name: str) -> SourceValue:
    found = option(of, name)
    if of.given:
        return found
    if isinstance(found, Known):
        state.note(AT_DEFAULTS)
    return guessed(found, Unknown(""), [Doubt(f"{name} comes from the command line")])


def _of_instance(of: Instance, name: str) -> SourceValue:
    found = of.attrs.get(name)
    if found is not None:
        return found
    member = find_member(of.of, name)
    if isinstance(member, Routine):
        return replace(member, bound=of.of if marked(member, "classmethod") else of)
    if member is not None:
        return member
    return Bound(of, name) if of.keras else Unknown(f"{name} of {of.of.node.name} is not known")


def _of_class(of: Class, name: str) -> SourceValue:
    member = find_member(of, name)
    if isinstance(member, Routine) and marked(member, "classmethod"):
        return replace(member, bound=of)
    return member or Unknown(f"{name} of {of.node.name} is not known")


def _of_model(of: SourceValue, name: str) -> SourceValue | None:
    """Return the inputs or outputs of a model or layer; None where `name` is none of them."""
    if isinstance(of, Graph) and name in ("output", "outputs", "input", "inputs"):
        return of.outputs if name.startswith("output") else of.inputs
    if isinstance(of, Stack) and name in ("output", "input"):
        return (of.output if name == "output" else of.given) or Unknown(f"{name} of a model that is not built")
    if isinstance(of, Draft) and name == "output":
        return of.output or Unknown("output of a layer that nothing calls")
    return None
