"""Attributes of values read, and targets of assignments set: names, attributes, elements."""

from __future__ import annotations

import ast
import re
from typing import Final

from msgspec.structs import replace

from tcprobe.audit.source.arrays.indexing import indexed
from tcprobe.audit.source.arrays.layout import transposed
from tcprobe.audit.source.kinds import (
    Bound,
    Class,
    CommandLine,
    Draft,
    Entries,
    Graph,
    Instance,
    Items,
    Module,
    Named,
    Routine,
    SourceValue,
    Stack,
    Tensor,
    Unknown,
)
from tcprobe.audit.source.layers import freeze
from tcprobe.audit.source.operators import AT_DEFAULTS, is_flags, option
from tcprobe.audit.source.state import State
from tcprobe.audit.source.values import (
    dimension,
    dimensions,
    doubted,
    find_member,
    guessed,
    is_read,
    items_of,
    one_of,
    through,
)
from tcprobe.source.scopes import marked
from tcprobe.source.values import DOUBTED, Known

_NO_DEVICE: Final = re.compile(r"\s*(-.*)?")  # of CUDA_VISIBLE_DEVICES: what follows a number that is none is not seen


def attribute_of(p: State, of: SourceValue, name: str) -> SourceValue:
    """Return an attribute of a value."""
    found = _attribute(p, of, name)
    return doubted(found, DOUBTED) if name in p.shaky else found


def _attribute(p: State, of: SourceValue, name: str) -> SourceValue:
    if type(of) is Named:
        return _option(p, p.flags, name) if is_flags(of.name) else Named(f"{of.name}.{name}")
    if type(of) is CommandLine:
        return _option(p, of, name)
    if type(of) is Instance:
        home = of.of.env.home or p.source
        return doubted(through(_of_instance(of, name), of), home.routines.of_attribute(of.of.node, name))
    if type(of) is Module:
        return of.member(name)
    if type(of) is Class:
        return _member(of, name, of) or Unknown(f"{name} of {of.node.name} is not known")
    if type(of) is Tensor:
        return of_tensor(of, name)
    return of if type(of) is Unknown else _of_model(of, name) or Bound(of, name)


def of_tensor(of: Tensor, name: str) -> SourceValue:
    """Return an attribute of a tensor."""
    if name in ("shape", "_keras_shape") and (of.shape is not None or of.features is not None):
        return dimensions(of)
    if name == "ndim" and of.shape is not None:
        return dimension(len(of.shape))
    return transposed(of) if name == "T" and of.shape is not None else Bound(of, name)


def _option(p: State, of: CommandLine, name: str) -> SourceValue:
    found = option(of, name)
    if of.given:
        return found
    if type(found) is Known:
        p.note(AT_DEFAULTS)
    return guessed(found, DOUBTED)


def _of_instance(of: Instance, name: str) -> SourceValue:
    found = of.attrs.get(name) or _member(of.of, name, of)
    if found is not None:
        return found
    return Bound(of, name) if of.keras else Unknown(f"{name} of {of.of.node.name} is not known")


def _member(of: Class, name: str, bound: Class | Instance) -> SourceValue | None:
    """Return a member of a class, a method bound as it is where it is taken from `bound`."""
    member = find_member(of, name)
    if type(member) is Routine and marked(member.node, "classmethod"):
        return replace(member, bound=of)
    return replace(member, bound=bound) if type(member) is Routine and bound is not of else member


def _of_model(of: SourceValue, name: str) -> SourceValue | None:
    """Return the inputs or outputs of a model or layer; None where `name` is none of them."""
    if type(of) is Graph and name in ("output", "outputs", "input", "inputs"):
        return of.outputs if name.startswith("output") else of.inputs
    if type(of) is Stack and name in ("output", "input"):
        return (of.output if name == "output" else of.given) or Unknown(f"{name} of a model that is not built")
    if type(of) is Draft and name == "output":
        return of.output or Unknown("output of a layer that nothing calls")
    return None


def bind(p: State, target: ast.AST, value: SourceValue) -> None:
    """Give a target of an assignment its value."""
    if isinstance(target, ast.Name):
        passed = target.id == "tf" and type(value) is Unknown
        p.env.vars[target.id] = Named("tensorflow") if passed else value
    elif isinstance(target, (ast.Tuple, ast.List)):
        _unpack(p, target.elts, value)
    elif isinstance(target, ast.Attribute):
        of = p.value(target.value)
        if not p.aside:
            _set_attribute(p, of, target.attr, p.guessed(value))
    elif isinstance(target, ast.Subscript):
        of, key = p.value(target.value), p.value(target.slice)
        if not p.aside:
            _set_item(p, of, key, p.guessed(value))
            _set_environment(p, of, key, value)


def _unpack(p: State, targets: list[ast.expr], value: SourceValue) -> None:
    starred = next((i for i, t in enumerate(targets) if isinstance(t, ast.Starred)), None)
    parts = _unpacked(value, len(targets), starred)
    if parts is None:
        reason = value.reason if type(value) is Unknown else "is unpacked from something that is not known"
        parts = [Unknown(reason, is_read(value))] * len(targets)
    for part, found in zip(targets, parts, strict=True):
        bind(p, part.value if isinstance(part, ast.Starred) else part, through(found, value))


def _unpacked(value: SourceValue, count: int, starred: int | None) -> list[SourceValue] | None:
    """Return the parts of an unpacked value, those of a starred target as one list; None where they do not fit."""
    found = items_of(value)
    if type(value) is Instance and not value.keras:
        found = list(value.attrs.values())
    if type(value) is Tensor and starred is None:  # several inputs of a model, or rows
        row = indexed(value, ["one"]) if value.shape and value.shape[0] == count else Tensor()
        found = [replace(row, sources=(), symbolic=value.symbolic, fresh=value.fresh)] * count
    if found is None or (len(found) != count if starred is None else len(found) < count - 1):
        return None
    if starred is None:
        return found
    end = len(found) - (count - starred - 1)
    return [*found[:starred], Items(found[starred:end]), *found[end:]]


def _set_attribute(p: State, of: SourceValue, name: str, value: SourceValue) -> None:
    if type(of) is Instance:
        of.attrs[name] = one_of([of.attrs[name], value]) if p.conditions and name in of.attrs else value
    elif type(of) is CommandLine:
        of.entries[name] = one_of([of.entries.get(name), value]) if p.conditions else value
    elif type(of) is Class:
        of.members[name] = value
    elif name == "trainable" and isinstance(of, (Draft, Stack, Graph)):
        freeze(of, Unknown("under a condition") if p.conditions else value, p.layers.drafts)


def _set_item(p: State, of: SourceValue, key: SourceValue, value: SourceValue) -> None:
    if type(of) is Entries and type(key) is Known and not p.conditions:
        of.entries[key.value] = value
    elif type(of) is Items and type(key) is Known and _fits(of, key.value):
        of.items[key.value] = value
    elif isinstance(of, (Entries, Items)):
        of.open = "is changed in place"


def _fits(of: Items, index: object) -> bool:
    return type(index) is int and -len(of.items) <= index < len(of.items)


def _set_environment(p: State, of: SourceValue, key: SourceValue, value: SourceValue) -> None:
    """Follow ``os.environ[key] = value``, which may leave the program no GPU."""
    if of == Named("os.environ") and type(key) is Known and key.value == "CUDA_VISIBLE_DEVICES":
        hidden = type(value) is Known and _NO_DEVICE.fullmatch(str(value.value)) is not None
        p.gpu_there = p.behind(p.gpu_there, not hidden)
